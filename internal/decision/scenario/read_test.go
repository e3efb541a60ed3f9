package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text string
		want string // after the path
	}{
		"text that is not JSON": {"{\n\"format\": \"kscen/1\",\n nonsense}", ":3: "},
		"another format":        {`{"format": "kscen/2"}`, `:1: format: is "kscen/2", must be "kscen/1"`},
		"a value of another type": {
			"{\"format\": \"kscen/1\",\n\"podGroups\": [{\"n\": 1},\n{\"n\": \"two\"}]}",
			":3: podGroups.n: is a string, must be a int",
		},
		"a number that cannot be": {
			"{\"format\": \"kscen/1\",\n\"podGroups\": [{\"n\": 1},\n{\"n\": -2}]}",
			":3: podGroups[1].n: is negative",
		},
		"a field that is missing": {
			"{\"format\": \"kscen/1\",\n\"nodePools\": [\n{\"weight\": 3}]}",
			":3: nodePools[0].name: is missing",
		},
		"an operator that there is not": {
			"{\"format\": \"kscen/1\", \"nodePools\": [{\"name\": \"a\", \"requirements\": [\n{\"key\": \"k\",\n\"op\": \"Like\"}]}]}",
			`:3: nodePools[0].requirements[0].op: is "Like", must be In, NotIn, Exists or DoesNotExist`,
		},
		"a node of no type": {
			"{\"format\": \"kscen/1\", \"nodes\": [\n{\"name\": \"n\",\n\"type\": \"x\"}]}",
			`:3: nodes[0].type: there is no instance type "x"`,
		},
		"a catalog elsewhere": {`{"format": "kscen/1", "catalog": "../x.json"}`, ":1: catalog: must be the name of a file in the same directory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s.json")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if err == nil || !strings.HasPrefix(err.Error(), path+tc.want) {
				t.Errorf("Read says %v, want %s%s", err, path, tc.want)
			}
		})
	}
}
