//go:build linux && !race

package h1

import (
	"syscall"
	"unsafe"
)

// readOnce reads from a socket that does not block. It does not tell the scheduler, as package syscall does for calls that may take
// long. p is not empty.
func readOnce(fd int, p []byte) (int, error) { return once(syscall.SYS_READ, fd, p) }

// writeOnce is readOnce for writing.
func writeOnce(fd int, p []byte) (int, error) { return once(syscall.SYS_WRITE, fd, p) }

func once(call uintptr, fd int, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, syscall.EAGAIN
		default:
			return 0, errno
		}
	}
}
