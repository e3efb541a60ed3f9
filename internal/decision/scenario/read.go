package scenario

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bytesMax bounds what a file may hold once it is unpacked.
const bytesMax = 1 << 30

// Read reads a kscen/1 file, gzip-compressed if its name ends in .gz, with the catalog
// that it names. The error names the file, and the line and field where they are known.
func Read(path string) (*Scenario, error) {
	s := &Scenario{}
	content, err := decode(path, Format, s)
	if err != nil {
		return nil, err
	}
	if err := s.validate(); err != nil {
		return nil, located(path, content, err)
	}
	if s.Catalog != "" {
		if s.Catalog != filepath.Base(s.Catalog) {
			return nil, located(path, content, wrong("must be the name of a file in the same directory", "catalog"))
		}
		more := &Scenario{}
		other := filepath.Join(filepath.Dir(path), s.Catalog)
		content, err := decode(other, Format, more)
		if err != nil {
			return nil, fmt.Errorf("catalog of %s: %w", path, err)
		}
		if err := validateTypes(more.InstanceTypes); err != nil {
			return nil, located(other, content, err)
		}
		s.InstanceTypes = slices.Concat(s.InstanceTypes, more.InstanceTypes)
	}
	if err := s.validateReferences(); err != nil {
		return nil, located(path, content, err)
	}
	return s, nil
}

// ReadPlan reads a kplan/1 file.
func ReadPlan(path string) (*Plan, error) {
	p := &Plan{}
	_, err := decode(path, PlanFormat, p)
	return p, err
}

// decode reads one JSON object of a format into v and returns the text it read.
func decode(path, format string, v any) ([]byte, error) {
	content, err := load(path)
	if err != nil {
		return nil, err
	}
	var head struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, located(path, content, err)
	}
	if head.Format != format {
		return nil, located(path, content, wrong(fmt.Sprintf("is %q, must be %q", head.Format, format), "format"))
	}
	if err := json.Unmarshal(content, v); err != nil {
		return nil, located(path, content, err)
	}
	return content, nil
}

func load(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: unpack: %w", path, err)
		}
	}
	content, err := io.ReadAll(io.LimitReader(r, bytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(content) > bytesMax:
		return nil, fmt.Errorf("%s: more than %d bytes", path, bytesMax)
	}
	return content, nil
}

// located returns the error with the file and, where it is known, the line that it is about.
func located(path string, content []byte, err error) error {
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	var field *fieldError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: is not JSON: %w", path, line(content, syntax.Offset), err)
	case errors.As(err, &mistyped):
		return fmt.Errorf("%s:%d: %s: is a %s, must be a %s", path, line(content, mistyped.Offset), mistyped.Field, mistyped.Value, mistyped.Type)
	case errors.As(err, &field):
		if offset, ok := offsetOf(content, field.path); ok {
			return fmt.Errorf("%s:%d: %w", path, line(content, offset), err)
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

func line(content []byte, offset int64) int {
	return 1 + bytes.Count(content[:min(offset, int64(len(content)))], []byte("\n"))
}

// offsetOf returns where the value at a path of names and indexes ends or begins; where
// it is missing, the innermost thing around it that is there.
func offsetOf(content []byte, path []any) (int64, bool) {
	dec := json.NewDecoder(bytes.NewReader(content))
	for _, step := range path {
		at := dec.InputOffset()
		if _, err := dec.Token(); err != nil { // the opening brace or bracket
			return at, at > 0
		}
		for i := 0; dec.More(); i++ {
			var here any = i
			if _, named := step.(string); named {
				here, _ = dec.Token()
			}
			if here == step {
				at = -1
				break
			}
			var skipped json.RawMessage
			if err := dec.Decode(&skipped); err != nil {
				return 0, false
			}
		}
		if at >= 0 {
			return at, true
		}
	}
	// The next token is the value; white space and a comma or colon may come before it.
	rest := content[dec.InputOffset():]
	return dec.InputOffset() + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))), true
}
