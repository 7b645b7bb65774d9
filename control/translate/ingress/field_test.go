package ingress_test

import "testing"

// These are cases that users of programs of this kind have met.

func TestCase_A01_SlicesWithoutPort(t *testing.T) {
	runCase(t, "testdata/field/a01-slices-without-port.txtar")
}

func TestCase_A02_SameNumberForUDPAndTCP(t *testing.T) {
	runCase(t, "testdata/field/a02-udp-first.txtar")
	runCase(t, "testdata/field/a02-tcp-first.txtar")
}

func TestCase_A03_PortMissing(t *testing.T) { runCase(t, "testdata/field/a03-port-missing.txtar") }

func TestCase_A04_NameCollisions(t *testing.T) {
	runCase(t, "testdata/field/a04-name-collisions.txtar")
}

func TestCase_A05_TLSOfOneHost(t *testing.T) {
	runCase(t, "testdata/field/a05-tls-of-one-host.txtar")
}

func TestCase_A09_FinalDot(t *testing.T) { runCase(t, "testdata/field/a09-final-dot.txtar") }

func TestCase_A11_DefaultBackend(t *testing.T) {
	runCase(t, "testdata/field/a11-default-backend.txtar")
}

func TestCase_A13_HostOverNamespaces(t *testing.T) {
	runCase(t, "testdata/field/a13-host-over-namespaces-edge-first.txtar")
	runCase(t, "testdata/field/a13-host-over-namespaces-team-first.txtar")
}
