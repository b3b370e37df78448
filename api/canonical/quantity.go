package canonical

import "strings"

// longest is how many characters a number may have that is read as a quantity.
const longest = 64

// Sensible keeps away from the parser of quantities what it would compute with all its digits: there are
// texts of a few bytes, such as 1e-900000000, with more of them than memory holds.
func Sensible(quantity string) bool {
	exponent := ""
	if at := strings.IndexAny(quantity, "eE"); at >= 0 {
		exponent = strings.TrimLeft(quantity[at+1:], "+-0")
	}
	return len(quantity) <= longest && len(exponent) <= 2
}

// Endless finds a number in a text that is not Sensible; what follows it without a space, or comes before
// it, is no letter, so that hashes are none. It is for files of which only some fields are quantities.
func Endless(text []byte) (number string, found bool) {
	for at := 0; at < len(text); at++ {
		if text[at] < '0' || text[at] > '9' {
			continue
		}
		end := at
		for end < len(text) && inNumber[text[end]] {
			end++
		}
		whole := (at == 0 || !isLetter(text[at-1])) && (end == len(text) || !isLetter(text[end]))
		if whole && !Sensible(string(text[at:end])) {
			return string(text[at:min(end, at+longest)]), true
		}
		at = end
	}
	return "", false
}

var inNumber = func() (in [256]bool) {
	for _, c := range []byte("0123456789.+-eE") {
		in[c] = true
	}
	return in
}()

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
