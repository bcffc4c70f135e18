// Command service is what tests run next to an agent: it answers each connection with a greeting, and ends when it is
// sent "quit".
//
// It writes to DATA, as a database does, and becomes the user BECOME, as entry points do; it ends at once with FAIL=1.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	fmt.Fprintln(os.Stderr, "service:", run())
	os.Exit(3)
}

// run serves until it fails.
func run() error {
	if os.Getenv("FAIL") != "" {
		return fmt.Errorf("FAIL is set")
	}
	data := os.Getenv("DATA")
	if id, err := strconv.Atoi(os.Getenv("BECOME")); err == nil {
		if err := os.Chown(data, id, id); err != nil {
			return err
		}
		if err := syscall.Setuid(id); err != nil {
			return err
		}
	}
	if data != "" {
		if err := os.WriteFile(filepath.Join(data, "rows"), []byte("kept"), 0o600); err != nil {
			return err
		}
	}
	if os.WriteFile("/rows", nil, 0o600) == nil {
		return fmt.Errorf("the root can be written")
	}
	l, err := net.Listen("tcp", ":"+os.Getenv("PORT"))
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(conn)
	}
}

// answer greets, and shows which networks there are.
func answer(conn net.Conn) {
	defer conn.Close()
	routes, _ := os.ReadFile("/proc/net/route") // only shown
	fmt.Fprintf(conn, "hello from uid %d, %d routes\n", os.Getuid(), strings.Count(string(routes), "\n")-1)
	line, _ := bufio.NewReader(conn).ReadString('\n') // an empty one says nothing
	if strings.TrimSpace(line) == "quit" {
		fmt.Println("asked to quit")
		os.Exit(7)
	}
}
