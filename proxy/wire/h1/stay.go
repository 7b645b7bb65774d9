package h1

// left is what a stay leaves to the connection.
type left uint8

const (
	nothing left = iota // but what it read
	begun               // a request whose head is parsed
	over                // the end of the connection
)

// take returns what the last read left, once.
func (s *stay) take() left {
	was := s.left
	s.left = nothing
	return was
}
