// Command protocol writes the Go files that follow from a .proto file, beside it: the messages by
// protoc-gen-go and the service by protoc-gen-go-grpc, in the versions of this module. It needs no
// protoc.
//
//	go -C tools/protocol run . ../../api/provider/v1/provider.proto
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protocol FILE.proto")
		os.Exit(2)
	}
	files, err := generate(context.Background(), os.Args[1])
	for _, f := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(os.Args[1]), filepath.Base(f.GetName())), []byte(f.GetContent()), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "protocol:", err)
		os.Exit(1)
	}
}

// generate returns what both plugins write of a .proto file.
func generate(ctx context.Context, path string) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(path)}},
		SourceInfoMode: protocompile.SourceInfoStandard, // the comments
	}
	compiled, err := compiler.Compile(ctx, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{filepath.Base(path)},
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(compiled[0])},
	}
	var files []*pluginpb.CodeGeneratorResponse_File
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		written, err := run(ctx, plugin, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		files = append(files, written...)
	}
	return files, nil
}

// run hands the request to a plugin, as protoc does.
func run(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s", response.GetError())
	}
	return response.GetFile(), nil
}
