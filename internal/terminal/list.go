package terminal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// mostIndented is how many entries of a list are indented for a person to read. More of
// them are for programs: they are written one by one, a line each, and never held as text.
const mostIndented = 1000

// List shows rows that can be many. As JSON or YAML they are the last field, called name,
// of doc, a struct with at least one field that is never left out; as a table or CSV they
// are alone.
func List[T any](t *Terminal, doc any, name string, rows []T) error {
	if t.Format != JSON && t.Format != YAML {
		return t.Rows(rows)
	}
	if t.Format == JSON && len(rows) > mostIndented {
		w := bufio.NewWriterSize(t.Out, 64<<10)
		if err := writeList(w, doc, name, rows); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
		return w.Flush()
	}
	var text bytes.Buffer
	if err := writeList(&text, doc, name, rows); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return t.document(json.RawMessage(text.Bytes()))
}

func writeList[T any](w io.Writer, doc any, name string, rows []T) error {
	var entry bytes.Buffer
	encoder := json.NewEncoder(&entry)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(doc); err != nil {
		return err
	}
	head := bytes.TrimSuffix(entry.Bytes(), []byte("}\n"))
	fmt.Fprintf(w, "%s,%q:[", head, name)
	separator := "\n"
	for i := range rows {
		entry.Reset()
		if err := encoder.Encode(&rows[i]); err != nil {
			return err
		}
		entry.Truncate(entry.Len() - 1) // the encoder's newline
		if _, err := fmt.Fprintf(w, "%s%s", separator, entry.Bytes()); err != nil {
			return err
		}
		separator = ",\n"
	}
	_, err := io.WriteString(w, "\n]}\n")
	return err
}
