package canonical

import (
	"crypto/sha1"
	"strconv"
)

// Blob is the hash under which Git stores data as a file.
func Blob(data []byte) [20]byte {
	h := sha1.New()
	h.Write(append(strconv.AppendInt([]byte("blob "), int64(len(data)), 10), 0))
	h.Write(data)
	return [20]byte(h.Sum(nil))
}
