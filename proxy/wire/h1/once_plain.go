//go:build unix && (!linux || race)

package h1

import "syscall"

// readOnce reads from a socket that does not block, in a way that the race detector sees.
func readOnce(fd int, p []byte) (n int, err error) {
	for {
		if n, err = syscall.Read(fd, p); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// writeOnce is readOnce for writing.
func writeOnce(fd int, p []byte) (n int, err error) {
	for {
		if n, err = syscall.Write(fd, p); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
