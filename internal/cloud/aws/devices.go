package aws

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
)

// deviceTables hold the ResourceSlices of instance types, for each class. They are read while
// decisions wait, so they are made when the types of a class are.
type deviceTables struct {
	mu    sync.Mutex
	known map[string]deviceTable // by class
}

// deviceTable is what the nodes of one class have, by instance type, and what it was made from.
type deviceTable struct {
	from  string
	types map[string][]resourceapi.ResourceSliceSpec
}

// update brings the table of a class up to date. A class whose annotation cannot be read has none.
func (t *deviceTables) update(opts *Options, class *awsv1.EC2NodeClass, m *market) {
	if !opts.NVIDIADevices && !opts.EFADevices {
		return
	}
	mode := class.Annotations[awsv1.AnnotationNVIDIASharing]
	sharing, err := instance.ParseSharing(mode)
	if err != nil {
		t.drop(class.Name)
		return
	}
	interfaces, err := json.Marshal(class.Spec.NetworkInterfaces)
	if err != nil {
		panic("network interfaces cannot be written as JSON: " + err.Error())
	}
	from := strings.Join([]string{mode, string(interfaces), strconv.Itoa(m.number)}, " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[class.Name].from == from {
		return
	}
	if t.known == nil || len(t.known) >= listsMost {
		t.known = map[string]deviceTable{}
	}
	table := deviceTable{from, map[string][]resourceapi.ResourceSliceSpec{}}
	which := instance.Slices{NVIDIA: opts.NVIDIADevices, EFA: opts.EFADevices, Sharing: sharing}
	for i := range m.infos {
		if specs := which.Of(&m.infos[i], &class.Spec); len(specs) > 0 {
			table.types[string(m.infos[i].InstanceType)] = specs
		}
	}
	t.known[class.Name] = table
}

// of returns the ResourceSlices of a node of the class and type; none: none are known.
func (t *deviceTables) of(class, instanceType string) []resourceapi.ResourceSliceSpec {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[class].types[instanceType]
}

func (t *deviceTables) drop(class string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, class)
}

// claimsEFA reports whether pods that the instance is for wait for devices of the driver of EFAs.
func claimsEFA(r *cloud.LaunchRequest) bool {
	return slices.Contains(strings.Split(r.Annotations[karpenterv1.RequestedDRADriversAnnotationKey], ","), instance.DriverEFA)
}
