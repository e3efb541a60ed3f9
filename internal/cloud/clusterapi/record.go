package clusterapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

const (
	// ownerLabel is on our Machines, with the UID of the cluster that they are for.
	ownerLabel = "dovetail.sh/cluster-uid"
	// recordAnnotation has the record of the launch.
	recordAnnotation = "dovetail.sh/launch"
	// idPrefix begins a provisional ID, which names a Machine.
	idPrefix = "clusterapi://"
)

// record is what must be known of a launch as long as its Machine exists. It is an annotation of the
// Machine.
type record struct {
	Token string `json:"token"`
	Claim string `json:"claim"`
	// Deployment is the name of the MachineDeployment, and Infrastructure and Bootstrap are the
	// templates that it referred to.
	Deployment     string    `json:"deployment"`
	Infrastructure reference `json:"infrastructure"`
	Bootstrap      reference `json:"bootstrap,omitzero"`
	// BootstrapHash is that of the bootstrap template's content, in its version.
	BootstrapHash string `json:"bootstrapHash,omitempty"`
	// Replica: the earlier provider made it, as a replica of the MachineDeployment. Nothing more is known.
	Replica bool `json:"replica,omitempty"`
	// Labels, Capacity and Allocatable are those of the Node.
	Labels      map[string]string `json:"labels"`
	Capacity    quantity.List     `json:"capacity"`
	Allocatable quantity.List     `json:"allocatable"`
}

// readRecord reads the record of a Machine.
func readRecord(object *unstructured.Unstructured) (*record, error) {
	r := &record{}
	if err := json.Unmarshal([]byte(object.GetAnnotations()[recordAnnotation]), r); err != nil {
		return nil, fmt.Errorf("annotation %s of %s %s/%s: %w", recordAnnotation, object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return r, nil
}

// objectName returns the name of the Machine of a claim, which is the claim's if that can be a label
// and a host name.
func objectName(claim string) string {
	if len(validation.IsDNS1123Label(claim)) == 0 {
		return claim
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(claim)) // never fails
	const kept = validation.DNS1123LabelMaxLength - 17
	name := strings.ReplaceAll(claim, ".", "-")
	return fmt.Sprintf("%s-%016x", name[:min(len(name), kept)], h.Sum64())
}

// contentHash returns a hash of what objects are cloned from a template. It is comparable within a
// version of the template's kind.
func contentHash(template *unstructured.Unstructured) string {
	if template == nil {
		return ""
	}
	content, err := json.Marshal(fields(template.Object).at("spec", "template")) // its keys are sorted
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(content)
	return template.GetAPIVersion() + " " + hex.EncodeToString(sum[:8])
}
