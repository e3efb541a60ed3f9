package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one file of an archive, or a link beside one.
type file struct {
	name string
	mode int64
	text []byte
	link string
}

type files []file

// gather reads files, and directories with all that is in them. Names begin with that of what was given;
// of "directory/." they begin below the directory.
func gather(paths []string) (files, error) {
	var all files
	for _, path := range paths {
		above := filepath.Dir(path)
		if rest, below := strings.CutSuffix(path, "/."); below {
			above = rest
		}
		err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(above, at)
			if err != nil {
				return err
			}
			all = append(all, file{name: filepath.ToSlash(name), mode: 0o644, text: text})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// under returns the files in a directory.
func (f files) under(directory string) files {
	moved := slices.Clone(f)
	for i := range moved {
		moved[i].name = directory + "/" + moved[i].name
	}
	return moved
}

// tar returns the files as an archive that is always the same.
func (f files) tar(at time.Time) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	ordered := slices.Clone(f)
	slices.SortFunc(ordered, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	for _, f := range ordered {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: at.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if f.link != "" {
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
		}
		if err := w.WriteHeader(header); err != nil {
			panic(err) // the buffer takes everything
		}
		if _, err := w.Write(f.text); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// squeeze compresses an archive, without a name or a time of its own.
func squeeze(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level exists
	}
	if _, err := w.Write(text); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
