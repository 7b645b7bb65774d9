// Package store holds the objects that sources have seen, decoded and cut down to what is used, and hands out views of them that
// never change. It also is the one place that reads the objects of foreign APIs.
package store
