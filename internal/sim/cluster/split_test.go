package cluster

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJSONIsTakenApart(t *testing.T) {
	t.Parallel()
	for text, right := range map[string]bool{
		`{}`: true, ` { } `: true, `{"a":1}`: true, `{"a" : [1, {"b": "]}"}] , "c\u0022\\":{"d":"\""},"":null}`: true,
		`{"a":"\\","b":"x\\\"y","c":-1.5e3,"d":true}`: true,
		``: false, `[]`: false, `{`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1`: false, `{"a":1 "b":2}`: false, `{"a":"`: false, `{,}`: false,
	} {
		want, got := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(text), &want); (err == nil) != right {
			t.Fatalf("%s: %v", text, err)
		}
		err := members([]byte(text), func(name string, value json.RawMessage) error {
			got[name] = value
			return json.Unmarshal(value, new(any))
		})
		if (err == nil) != right {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); right && diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	var all []json.RawMessage
	err := elements([]byte(` [ 1 ,"a,]", [2, 3],{"b":[]}] `), func(value json.RawMessage) error {
		all = append(all, value)
		return nil
	})
	if want := []json.RawMessage{[]byte("1"), []byte(`"a,]"`), []byte("[2, 3]"), []byte(`{"b":[]}`)}; err != nil || !cmp.Equal(want, all) {
		t.Errorf("a list is %q, want %q: %v", all, want, err)
	}
}
