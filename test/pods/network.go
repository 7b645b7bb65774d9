package pods

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// bridge connects the Pods; its address is their gateway to everything else in the test's namespace.
const bridge = "pods0"

// resting is how many addresses wait before one is used again, so that late packets for a Pod do not reach its successor.
const resting = 64

// network hands out addresses and joins Pods to the bridge.
type network struct {
	prefix netip.Prefix
	own    *os.File // the namespace that the bridge is in

	mu    sync.Mutex
	next  netip.Addr
	free  []netip.Addr
	links int // made so far; names the devices
}

// newNetwork makes the bridge with the first address of the prefix.
func newNetwork(prefix netip.Prefix) (*network, error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	gateway := prefix.Masked().Addr().Next()
	err = ip(fmt.Sprintf("link add %[1]s type bridge\naddr add %[2]s dev %[1]s\nlink set %[1]s up\n", bridge, netip.PrefixFrom(gateway, prefix.Bits())))
	if err != nil {
		return nil, err
	}
	return &network{prefix: prefix, own: own, next: gateway.Next()}, nil
}

func (n *network) take() netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.free) > resting {
		a := n.free[0]
		n.free = n.free[1:]
		return a
	}
	a := n.next
	n.next = n.next.Next()
	return a
}

func (n *network) give(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, a)
}

// device names the bridge's end of the next link.
func (n *network) device() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links++
	return fmt.Sprintf("p%d", n.links)
}

// sandbox is what the containers of a Pod share. Both files are nil in the host's network.
type sandbox struct {
	address  netip.Addr
	net, uts *os.File
}

// newSandbox makes the namespaces of a Pod and joins them to the bridge.
func (n *network) newSandbox(hostname string) (*sandbox, error) {
	s := &sandbox{address: n.take()}
	device := n.device()
	err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS); err != nil {
			return fmt.Errorf("unshare network and host name: %w", err)
		}
		if err = unix.Sethostname([]byte(hostname)); err != nil {
			return err
		}
		// Container runtimes let everyone listen on low ports.
		if err = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644); err != nil {
			return err
		}
		if s.net, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if s.uts, err = os.Open("/proc/thread-self/ns/uts"); err != nil {
			return err
		}
		return ip(fmt.Sprintf("link add eth0 type veth peer name %s netns /proc/%d/fd/%d\naddr add %s dev eth0\nlink set lo up\nlink set eth0 up\nroute add default via %s\n",
			device, os.Getpid(), n.own.Fd(), netip.PrefixFrom(s.address, n.prefix.Bits()), n.prefix.Masked().Addr().Next()))
	})
	if err == nil {
		err = ip(fmt.Sprintf("link set %s master %s up\n", device, bridge))
	}
	if err != nil {
		n.drop(s)
		return nil, err
	}
	return s, nil
}

// drop gives the namespaces up; the kernel removes the devices with the last process.
func (n *network) drop(s *sandbox) {
	for _, f := range []*os.File{s.net, s.uts} {
		if f != nil {
			f.Close()
		}
	}
	if s.net != nil {
		n.give(s.address)
	}
}

// enter puts the calling thread into the namespaces.
func (s *sandbox) enter() error {
	if s.net == nil {
		return nil
	}
	if err := unix.Setns(int(s.net.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	if err := unix.Setns(int(s.uts.Fd()), unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("enter the host name: %w", err)
	}
	return nil
}

// onThread runs f on a thread of its own, which may change its namespaces: the thread ends with f. Programs that f starts inherit
// them.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread is not used again
		done <- f()
	}()
	return <-done
}

// ip runs commands of the program ip, one a line, in the calling thread's network.
func ip(batch string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = bytes.NewReader([]byte(batch))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s\n%s", err, out, batch)
	}
	return nil
}
