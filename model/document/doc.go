// Package document reads files of YAML and JSON documents into Go values and says of every mistake on which line it is and how
// to mend it. A broken document does not hide the others of its file.
package document
