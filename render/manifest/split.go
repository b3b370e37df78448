package manifest

import "bytes"

// chunk is the text of one document within a file.
type chunk struct {
	data    []byte
	at      int // where data begins in the file
	first   int // line on which data begins, from 1
	content int // line of the first content, which is what people call the line of the document
}

// A file is cut at its document markers before it is parsed, so that one broken document costs no
// other. That is safe: "---" and "..." at the begin of a line are markers in every context of YAML,
// quoted and literal text included.
func split(data []byte) (chunks []chunk) {
	breaks := "\n"
	if bytes.ContainsAny(data, "\r") || bytes.Contains(data, []byte("\u0085")) ||
		bytes.Contains(data, []byte("\u2028")) || bytes.Contains(data, []byte("\u2029")) {
		breaks = "\r\n\u0085\u2028\u2029" // what YAML 1.1 takes for the end of a line
	}

	start := 0
	open := chunk{first: 1}
	directive, marked := false, false
	emit := func(end, next, line int) {
		if open.content > 0 || marked {
			open.data, open.at = data[start:end], start
			chunks = append(chunks, open)
		}
		start, open = next, chunk{first: line}
		directive, marked = false, false
	}
	line := 1
	for at := 0; at < len(data); line++ {
		end := lineEnd(data, at, breaks)
		text := data[at:end]
		if at == 0 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		text = bytes.TrimRight(text, "\r\n\u0085\u2028\u2029")
		switch {
		case marker(text, "---"):
			if open.content > 0 || marked || !directive {
				emit(at, at, line)
			}
			marked = true
			if rest := bytes.TrimLeft(text[3:], " \t"); len(rest) > 0 && rest[0] != '#' {
				open.content = line
			}
		case marker(text, "..."):
			emit(end, end, line+1)
		case open.content > 0:
		case len(text) > 0 && text[0] == '%' && !marked:
			directive = true
		default:
			if rest := bytes.TrimLeft(text, " \t"); len(rest) > 0 && rest[0] != '#' {
				open.content = line
			}
		}
		at = end
	}
	emit(len(data), len(data), line)
	return chunks
}

func marker(line []byte, mark string) bool {
	return bytes.HasPrefix(line, []byte(mark)) && (len(line) == 3 || line[3] == ' ' || line[3] == '\t')
}

// lineEnd is the index behind the line that begins at at, its break included.
func lineEnd(data []byte, at int, breaks string) int {
	var i int
	if len(breaks) == 1 {
		i = bytes.IndexByte(data[at:], '\n')
	} else {
		i = bytes.IndexAny(data[at:], breaks)
	}
	if i < 0 {
		return len(data)
	}
	i += at
	switch {
	case data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n':
		return i + 2
	case data[i] < 0x80:
		return i + 1
	case data[i] == 0xC2:
		return i + 2
	default:
		return i + 3
	}
}
