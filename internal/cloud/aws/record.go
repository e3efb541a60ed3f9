package aws

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// recordBytesMost bounds what is read from a record.
	recordBytesMost = 4 << 20

	// recordField is the order in a record, and outcomeField the machines that EC2 gave for it.
	recordField  = "order"
	outcomeField = "outcome"
)

// note writes down what became of a batch, so that whoever comes next need not ask EC2 once
// more. Without it they do, and hear the same.
func (l *ledger) note(ctx context.Context, name string, machines []machine) {
	content, err := pack(machines)
	if err == nil {
		before := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.namespace}}
		after := before.DeepCopy()
		after.BinaryData = map[string][]byte{outcomeField: content}
		err = l.client.Patch(ctx, after, client.MergeFrom(before))
	}
	if err != nil {
		l.log.Warn("outcome of a launch could not be noted; EC2 is asked again after a restart", "record", name, "error", err)
	}
}

// noted returns the machines of a batch that is settled; none: it is not known to be.
func noted(record *corev1.ConfigMap) []machine {
	var machines []machine
	if err := read(record.BinaryData[outcomeField], &machines); err != nil {
		return nil
	}
	return machines
}

func pack(v any) ([]byte, error) {
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if err := json.NewEncoder(zw).Encode(v); err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	if err := zw.Close(); err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return out.Bytes(), nil
}

func read(content []byte, into any) error {
	zr, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(zr, recordBytesMost)).Decode(into); err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	return nil
}

func unpack(content []byte) (order, error) {
	var o order
	if err := read(content, &o); err != nil {
		return order{}, err
	}
	if o.Input == nil || o.ClientToken == "" || len(o.Members) == 0 {
		return order{}, errors.New("read launch record: it has no request, token or members")
	}
	return o, nil
}
