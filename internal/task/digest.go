package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// digest names a JSON value of a kind in 16 hexadecimal digits: the same for values that are equal, in whatever order their
// members stand and however their numbers are written. PostgreSQL's function digest gives the same.
//
// A value is the set of its nodes, itself included. A node has an id, which says where it stands, and a hash of the id and
// of what stands there. The digest is the hash of all hashes, sorted: so neither side needs to walk in any order, or as deep
// as the value is.
func digest(kind byte, doc json.RawMessage) string {
	root := sha256.Sum256([]byte{kind})
	var hashes [][]byte
	collect(root[:], decode(doc), &hashes)
	slices.SortFunc(hashes, bytes.Compare)
	all := sha256.Sum256(bytes.Join(hashes, nil))
	return hex.EncodeToString(all[:8])
}

// collect adds the hashes of a value's nodes; id is the value's own.
func collect(id []byte, value any, hashes *[][]byte) {
	content := "n"
	switch v := value.(type) {
	case bool:
		content = "f"
		if v {
			content = "t"
		}
	case string:
		content = "s" + v
	case json.Number:
		content = "#" + plain(string(v))
	case []any:
		content = "a"
		for i, e := range v {
			collect(child(id, "i"+strconv.Itoa(i)), e, hashes)
		}
	case map[string]any:
		content = "o"
		for name, e := range v {
			collect(child(id, "k"+name), e, hashes)
		}
	}
	*hashes = append(*hashes, child(id, content))
}

// child hashes an id with what follows it.
func child(id []byte, what string) []byte {
	sum := sha256.Sum256(append(slices.Clone(id), what...))
	return sum[:]
}

// plain writes equal JSON numbers alike: decimal, without an exponent, and without leading or trailing zeros.
func plain(number string) string {
	digits, negative := strings.CutPrefix(number, "-")
	exponent := 0
	if at := strings.IndexAny(digits, "eE"); at >= 0 {
		e, err := strconv.Atoi(digits[at+1:])
		const most = 1000 // as far as a ping may go; a number beyond is equal to none that is written in another way
		if err != nil || e < -most || e > most {
			return number
		}
		digits, exponent = digits[:at], e
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	switch {
	case exponent > 0:
		fraction += strings.Repeat("0", max(exponent-len(fraction), 0))
		whole, fraction = whole+fraction[:exponent], fraction[exponent:]
	case exponent < 0:
		whole = strings.Repeat("0", max(-exponent-len(whole), 0)) + whole
		at := len(whole) + exponent
		whole, fraction = whole[:at], whole[at:]+fraction
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		return "-" + whole
	}
	return whole
}
