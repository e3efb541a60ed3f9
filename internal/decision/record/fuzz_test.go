package record_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decision/record"
)

// FuzzDecode checks that whatever can be read of a decision is written, and read and written
// the same from there on.
func FuzzDecode(f *testing.F) {
	want, seed := &record.Decision{}, int64(0)
	fill(reflect.ValueOf(want).Elem(), &seed, 8)
	text, err := want.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"dovetail-decision/1","pods":[{"Name":"w"}],"decision":{"Snapshot":{"Pending":[{"PodRef":0}]},"Plan":{"Placements":[{"Pod":0}],"Refusals":[{"Pod":0,"Why":{"Causes":[{"Causes":[{}]}]}}]}}}`))
	f.Add([]byte(`{"format":"dovetail-decision/1","decision":{"Snapshot":{"Nodes":[{"Type":null}],"Pools":[{"Types":[null]}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := record.Decode(text)
		if err != nil {
			return
		}
		first, err := d.Encode()
		if err != nil {
			t.Fatalf("read, and cannot be written: %v", err)
		}
		again, err := record.Decode(first)
		if err != nil {
			t.Fatalf("written, and cannot be read: %v\n%s", err, first)
		}
		second, err := again.Encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("written twice (%v):\n%s\n%s", err, first, second)
		}
	})
}

// TestDecodeIsBounded checks that no record ends the process that reads it: a stack that is full
// cannot be recovered from.
func TestDecodeIsBounded(t *testing.T) {
	t.Parallel()
	const levels = 2_000_000
	text := `{"format":"dovetail-decision/1","decision":{"Snapshot":{},"Plan":{"Refusals":[{"Why":` +
		strings.Repeat(`{"Causes":[`, levels) + strings.Repeat(`]}`, levels) + `}]}}}`
	if _, err := record.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "deeper than") {
		message := "none"
		if err != nil {
			message = err.Error()[:min(200, len(err.Error()))]
		}
		t.Errorf("verdicts %d levels deep: error %s", levels, message)
	}
}
