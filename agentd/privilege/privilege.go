// Package privilege makes agentd and the commands that it runs two users of one
// container.
//
//	root, CAP_SETUID SETGID KILL CHOWN ─▶ gives agentd its directories
//	  │ becomes the server's user, keeps SETUID SETGID KILL over an exec of itself
//	  ▼
//	the server's user ──▶ Command: the commands' user, no capability
//	                  └─▶ Do: files of the commands, with their rights
//
// The kernel then keeps commands from what is agentd's: its memory, its files, its
// sockets and its life. The package promises nothing where both are one user.
package privilege

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// User is a numeric user and group.
type User struct{ UID, GID int }

// ParseUser reads UID[:GID]; the group is the user's number if it is left out.
func ParseUser(text string) (User, error) {
	uid, gid, ok := strings.Cut(text, ":")
	if !ok {
		gid = uid
	}
	var ids [2]int
	for i, id := range []string{uid, gid} {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil || n == 1<<32-1 { // which to the kernel means that the id is not set
			return User{}, fmt.Errorf("%.40q is not UID[:GID]", text)
		}
		ids[i] = int(n)
	}
	return User{ids[0], ids[1]}, nil
}

func (u User) String() string { return fmt.Sprintf("%d:%d", u.UID, u.GID) }

// Users are agentd's and that of its commands, which differ. A nil *Users is one
// user for both, that of this process. It is safe for concurrent use.
type Users struct {
	command User
	idle    chan *thread
}

// Shared is the mode of a directory of agentd that others may enter, and 0700 where commands are agentd's user.
func (u *Users) Shared(mode fs.FileMode) fs.FileMode {
	if u == nil {
		return 0o700
	}
	return mode
}
