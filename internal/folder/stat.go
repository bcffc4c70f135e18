package folder

import "golang.org/x/sys/unix"

// Stat is the stat data that git keeps of a file. A process in a container
// can set any of it but the change time, which the kernel advances with every
// change of content or metadata; so equal data mean an unchanged file.
type Stat struct {
	CtimeSec, CtimeNsec uint32
	MtimeSec, MtimeNsec uint32
	Dev, Ino            uint32
	Uid, Gid            uint32
	Size                uint32
}

func StatOf(st *unix.Stat_t) Stat {
	return Stat{
		CtimeSec: uint32(st.Ctim.Sec), CtimeNsec: uint32(st.Ctim.Nsec),
		MtimeSec: uint32(st.Mtim.Sec), MtimeNsec: uint32(st.Mtim.Nsec),
		Dev: uint32(st.Dev), Ino: uint32(st.Ino), Uid: st.Uid, Gid: st.Gid, Size: uint32(st.Size),
	}
}
