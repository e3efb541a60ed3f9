package providerv1_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	providerv1 "github.com/dovetail-sh/dovetail/api/provider/v1"
)

// TestNothingThatWasReleasedHasChanged compares the protocol with released.txt, whose lines say
// what programs of others rely on. A release adds the lines that are new; none is ever changed or
// taken away.
func TestNothingThatWasReleasedHasChanged(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("released.txt")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	lines := describe(providerv1.File_provider_proto)
	for _, line := range lines {
		have[line] = true
	}
	released := strings.Split(strings.TrimSpace(string(content)), "\n")
	known := map[string]bool{}
	for _, line := range released {
		known[line] = true
		if !have[line] {
			t.Errorf("released.txt has %q, and the protocol no longer does: programs of others would break", line)
		}
	}
	for _, line := range lines {
		if !known[line] {
			t.Errorf("the protocol has %q, and released.txt does not: add the line", line)
		}
	}
}

// describe returns a line for everything that goes over the wire.
func describe(file protoreflect.FileDescriptor) []string {
	lines := []string{"package " + string(file.Package())}
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			m := service.Methods().Get(j)
			lines = append(lines, fmt.Sprintf("rpc %s/%s (%s%s) returns (%s%s)", service.FullName(), m.Name(),
				streamed(m.IsStreamingClient()), m.Input().Name(), streamed(m.IsStreamingServer()), m.Output().Name()))
		}
	}
	for i := range file.Enums().Len() {
		enum := file.Enums().Get(i)
		for j := range enum.Values().Len() {
			v := enum.Values().Get(j)
			lines = append(lines, fmt.Sprintf("enum %s %d %s", enum.Name(), v.Number(), v.Name()))
		}
	}
	for i := range file.Messages().Len() {
		message := file.Messages().Get(i)
		lines = append(lines, "message "+string(message.Name()))
		for j := range message.Fields().Len() {
			f := message.Fields().Get(j)
			lines = append(lines, fmt.Sprintf("field %s %d %s %s", message.Name(), f.Number(), f.Name(), typeOf(f)))
		}
	}
	return lines
}

func streamed(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func typeOf(f protoreflect.FieldDescriptor) string {
	kind := func(f protoreflect.FieldDescriptor) string {
		switch f.Kind() {
		case protoreflect.MessageKind:
			return string(f.Message().Name())
		case protoreflect.EnumKind:
			return string(f.Enum().Name())
		default:
			return f.Kind().String()
		}
	}
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s,%s>", kind(f.MapKey()), kind(f.MapValue()))
	case f.IsList():
		return "repeated " + kind(f)
	case f.HasOptionalKeyword():
		return "optional " + kind(f)
	case f.ContainingOneof() != nil:
		return "oneof " + string(f.ContainingOneof().Name()) + " " + kind(f)
	}
	return kind(f)
}
