package aws

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/family"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

const (
	templatePrefix = awsv1.Group + "/"
	// ownPrefix is that of the names that we give. Karpenter's begin with templatePrefix as
	// well and have the same tags; one that runs beside us, or takes over, needs its own.
	ownPrefix = templatePrefix + "dovetail-"
	// templateKept is how long a launch template stays that nobody launches with. EC2 has
	// room for 5,000 of them.
	templateKept = time.Hour
	// templatePage is how many launch templates a page has.
	templatePage = 200
	// newMost is how many launch templates are made for one fleet while there is budget left
	// for all. The offers that would need more are left out; those that have theirs stay.
	newMost = 8
	// userDataMost is how many bytes EC2 takes.
	userDataMost = 16384
)

// templates are the launch templates of the cluster. Their names follow from what is in
// them, so that the same one is never made twice, whoever makes it.
type templates struct {
	p *Provider

	making singleflight.Group // by name

	mu       sync.Mutex
	used     map[string]time.Time // by name; those known to exist
	hydrated bool                 // with what a predecessor left
}

func newTemplates(p *Provider) *templates { return &templates{p: p, used: map[string]time.Time{}} }

// ensure makes the launch templates of a shot that there are not yet and returns the
// offers that have one, each with its template and image.
func (t *templates) ensure(ctx context.Context, s *shot, tags map[string]string) ([]armed, error) {
	m, err := t.p.stall.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := t.p.classOf(ctx, s.class)
	if err != nil {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Message: err.Error()}
	}
	allowed := max(1, int(newMost*t.p.budget.left("CreateLaunchTemplate")))
	names := map[string]string{} // by variant; empty: left out
	region := t.p.region(m)
	var out []armed
	for _, offer := range s.offers {
		info, image := m.info(offer.Type.Name), imageOf(s.class, offer.Type)
		if info == nil || image == "" {
			return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: "AMINotFound", Message: fmt.Sprintf("node class %s has no image for %s", s.class.Name, offer.Type.Name)}
		}
		settings, _ := instance.Settings(info, region, config) // the class's status tells what fails
		v := variant{image: image, settings: settings, reservation: offer.Offering.Reservation}
		if s.efa && len(s.class.Spec.NetworkInterfaces) == 0 && info.NetworkInfo != nil && info.NetworkInfo.EfaInfo != nil {
			v.efas = int(aws.ToInt32(info.NetworkInfo.EfaInfo.MaximumEfaInterfaces))
		}
		key := v.key()
		name, seen := names[key]
		left, needed := &allowed, s.needed[offer.Type.Name]
		if needed { // minValues cannot do without it
			one := 1
			left = &one
		}
		if !seen || name == "" && needed {
			if name, err = t.obtain(ctx, s, config, &v, tags, left); err != nil {
				return nil, err
			}
			names[key] = name
		}
		if name != "" {
			out = append(out, armed{offer, name, image})
		}
	}
	return out, nil
}

// armed is an offer with what it is launched by.
type armed struct {
	catalog.Offer
	template, image string
}

// obtain returns the name of the launch template of a variant, after making it if there is
// none and as many are allowed; empty: they are not.
func (t *templates) obtain(ctx context.Context, s *shot, c *instance.Class, v *variant, tags map[string]string, allowed *int) (string, error) {
	data, err := t.data(ctx, s, c, v, tags)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal([]any{data, tags})
	if err != nil {
		return "", fmt.Errorf("write launch template: %w", err)
	}
	sum := sha256.Sum256(text)
	name := ownPrefix + hex.EncodeToString(sum[:10])
	if t.use(name) {
		return name, nil
	}
	if *allowed == 0 {
		return "", nil
	}
	*allowed--
	_, err, _ = t.making.Do(name, func() (any, error) { return nil, t.make(ctx, name, data, tags) })
	return name, err
}

// use notes that a launch template is needed, and tells whether there is one.
func (t *templates) use(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.used[name]
	if known {
		t.used[name] = t.p.opts.Now()
	}
	return known
}

// variant is what types must have in common to share a launch template.
type variant struct {
	image       string
	settings    kubelet.Settings
	efas        int
	reservation string
}

func (v *variant) key() string {
	text, err := json.Marshal([]any{v.image, v.settings, v.efas, v.reservation})
	if err != nil {
		panic("settings of a kubelet cannot be written as JSON: " + err.Error())
	}
	return string(text)
}

// imageOf returns the image that machines of a type are started from; empty: there is none.
func imageOf(class *awsv1.EC2NodeClass, t *catalog.Type) string {
	for i := range class.Status.AMIs {
		if suits(class.Status.AMIs[i].Requirements, t.Requirements) {
			return class.Status.AMIs[i].ID
		}
	}
	return ""
}

func suits(wanted []corev1.NodeSelectorRequirement, has label.Requirements) bool {
	for _, w := range wanted {
		want, err := label.Parse(label.Operator(w.Operator), w.Values)
		if err != nil {
			return false
		}
		got, decided := has[w.Key]
		if decided && !got.Overlaps(want) || !decided && !want.AllowsAbsence() {
			return false
		}
	}
	return true
}

// make makes a launch template; there may be one of the name, which then is the same.
func (t *templates) make(ctx context.Context, name string, data *types.RequestLaunchTemplateData, tags map[string]string) error {
	_, err := t.p.clients.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: data,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tagList(tags)}},
	})
	code := errorCode(err)
	switch {
	case err == nil || code == "InvalidLaunchTemplateName.AlreadyExistsException":
	case isThrottling(code) || isOutage(code) || code == "Unknown":
		return fmt.Errorf("create launch template: %w", err)
	default:
		return &cloud.Failure{Kind: cloud.Rejected, Reason: reasonOf(code, err.Error()), Message: "create launch template: " + err.Error()}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[name] = t.p.opts.Now()
	return nil
}

// forget drops the launch templates of a batch, one of which is gone.
func (t *templates) forget(b *batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range b.order.Input.LaunchTemplateConfigs {
		delete(t.used, aws.ToString(c.LaunchTemplateSpecification.LaunchTemplateName))
	}
}

// hydrate learns of the launch templates that a predecessor left, once.
func (t *templates) hydrate(ctx context.Context) error {
	t.mu.Lock()
	hydrated := t.hydrated
	t.mu.Unlock()
	if hydrated {
		return nil
	}
	names, err := t.list(ctx, filter("tag:"+awsv1.TagEKSClusterName, t.p.opts.ClusterName))
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		if _, known := t.used[name]; !known && strings.HasPrefix(name, ownPrefix) {
			t.used[name] = t.p.opts.Now()
		}
	}
	t.hydrated = true
	return nil
}

func (t *templates) list(ctx context.Context, filters ...types.Filter) ([]string, error) {
	var names []string
	pages := ec2.NewDescribeLaunchTemplatesPaginator(t.p.clients.EC2, &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: aws.Int32(templatePage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describe launch templates: %w", err)
		}
		for i := range page.LaunchTemplates {
			if name := aws.ToString(page.LaunchTemplates[i].LaunchTemplateName); strings.HasPrefix(name, templatePrefix) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// sweep deletes the launch templates that nobody has used for long.
func (t *templates) sweep(ctx context.Context) error {
	t.mu.Lock()
	var idle []string
	for name, used := range t.used {
		if t.p.opts.Now().Sub(used) > templateKept {
			idle = append(idle, name)
			delete(t.used, name)
		}
	}
	t.mu.Unlock()
	return t.remove(ctx, idle)
}

// removeOf deletes the launch templates of a class.
func (t *templates) removeOf(ctx context.Context, class string) error {
	names, err := t.list(ctx, filter("tag:"+awsv1.TagEKSClusterName, t.p.opts.ClusterName), filter("tag:"+awsv1.TagNodeClass, class))
	if err != nil {
		return err
	}
	return t.remove(ctx, names)
}

func (t *templates) remove(ctx context.Context, names []string) error {
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		_, err := t.p.clients.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
		t.mu.Lock()
		if err != nil && !isNotFound(errorCode(err)) {
			errs = append(errs, fmt.Errorf("delete launch template %s: %w", name, err))
			t.used[name] = t.p.opts.Now().Add(-templateKept) // the next sweep tries again
		} else {
			delete(t.used, name)
		}
		t.mu.Unlock()
	}
	return errors.Join(errs...)
}

// data returns the content of a launch template.
func (t *templates) data(ctx context.Context, s *shot, c *instance.Class, v *variant, tags map[string]string) (*types.RequestLaunchTemplateData, error) {
	text, err := t.p.userData(ctx, s, v.image, &v.settings)
	if err != nil {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Message: fmt.Sprintf("node class %s: user data: %v", s.class.Name, err)}
	}
	t.p.opts.Meter.UserData(s.class.Name, len(text))
	if len(text) > userDataMost {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: "UserDataSizeLimitExceeded", Message: fmt.Sprintf("node class %s: user data has %d bytes; EC2 takes %d", s.class.Name, len(text), userDataMost)}
	}
	spec := &s.class.Spec
	data := &types.RequestLaunchTemplateData{
		ImageId: aws.String(v.image), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(text))),
		IamInstanceProfile:  &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(s.class.Status.InstanceProfile)},
		Monitoring:          &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(aws.ToBool(spec.DetailedMonitoring))},
		BlockDeviceMappings: volumes(spec), MetadataOptions: metadata(spec.MetadataOptions), NetworkInterfaces: interfaces(s, v.efas),
		Placement:         &types.LaunchTemplatePlacementRequest{Tenancy: types.Tenancy(s.tenancy)},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: tagList(tags)}},
	}
	if s.capacityType == label.Spot {
		data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: tagList(tags)})
	}
	if spec.CPUOptions != nil {
		data.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecification(aws.ToString(spec.CPUOptions.NestedVirtualization))}
	}
	if s.enclave {
		data.EnclaveOptions = &types.LaunchTemplateEnclaveOptionsRequest{Enabled: aws.Bool(true)}
	}
	if c.Group != nil {
		data.Placement.GroupId = aws.String(c.Group.ID)
		var partition int32
		if _, err := fmt.Sscan(s.partition, &partition); err == nil {
			data.Placement.PartitionNumber = aws.Int32(partition)
		}
	}
	if t.p.opts.Reservations {
		reserve(data, s, v.reservation)
	}
	return data, nil
}

// reserve says which capacity reservation machines take up: the one they are bought from,
// or none, lest machines bought elsewhere use them up.
func reserve(data *types.RequestLaunchTemplateData, s *shot, reservation string) {
	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	if reservation == "" {
		return
	}
	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: aws.String(reservation)},
	}
	switch s.targetType() {
	case types.DefaultTargetCapacityTypeCapacityBlock:
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
	case types.DefaultTargetCapacityTypeReservedCapacity:
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeInterruptibleCapacityReservation}
	case types.DefaultTargetCapacityTypeOnDemand, types.DefaultTargetCapacityTypeSpot:
	}
}

// volumes returns the volumes of a class, or those of its family.
func volumes(spec *awsv1.EC2NodeClassSpec) []types.LaunchTemplateBlockDeviceMappingRequest {
	list := spec.BlockDeviceMappings
	if len(list) == 0 {
		list = family.Of(spec).Volumes
	}
	var out []types.LaunchTemplateBlockDeviceMappingRequest
	for i := range list {
		v := types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: list[i].DeviceName}
		if e := list[i].EBS; e != nil {
			v.Ebs = &types.LaunchTemplateEbsBlockDeviceRequest{
				DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, KmsKeyId: e.KMSKeyID, SnapshotId: e.SnapshotID,
				Iops: positive(e.IOPS), Throughput: positive(e.Throughput), VolumeInitializationRate: e.VolumeInitializationRate,
				VolumeType: types.VolumeType(aws.ToString(e.VolumeType)),
			}
			if e.VolumeSize != nil {
				const gibibyte = 1 << 30
				v.Ebs.VolumeSize = aws.Int32(int32(min(math.MaxInt32, math.Ceil(float64(translate.Amount(corev1.ResourceEphemeralStorage, *e.VolumeSize))/gibibyte))))
			}
		}
		out = append(out, v)
	}
	return out
}

// positive returns the number as EC2 takes it; nil: there is none.
func positive(n *int64) *int32 {
	if n == nil || *n <= 0 {
		return nil
	}
	return aws.Int32(int32(min(*n, math.MaxInt32)))
}

// metadata returns how the instance metadata service answers; where a class does not say,
// it takes tokens alone, and pods without the host's network get none.
func metadata(m *awsv1.MetadataOptions) *types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint: types.LaunchTemplateInstanceMetadataEndpointStateEnabled, HttpTokens: types.LaunchTemplateHttpTokensStateRequired,
		HttpPutResponseHopLimit: aws.Int32(1), InstanceMetadataTags: types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if m == nil {
		return out
	}
	if m.HTTPEndpoint != nil {
		out.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointState(*m.HTTPEndpoint)
	}
	if m.HTTPTokens != nil {
		out.HttpTokens = types.LaunchTemplateHttpTokensState(*m.HTTPTokens)
	}
	if m.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = positive(m.HTTPPutResponseHopLimit)
	}
	if ipv6 := aws.ToString(m.HTTPProtocolIPv6); ipv6 == "enabled" { // regions without it refuse the word
		out.HttpProtocolIpv6 = types.LaunchTemplateInstanceMetadataProtocolIpv6Enabled
	}
	return out
}

// interfaces returns the network interfaces: those of the class, one for each EFA that
// the type has if pods ask for them, or one.
func interfaces(s *shot, efas int) []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	var out []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for _, i := range s.class.Spec.NetworkInterfaces {
		out = append(out, networkInterface(s, i.NetworkCardIndex, i.DeviceIndex, i.InterfaceType))
	}
	if len(out) > 0 {
		return out
	}
	for card := range int32(efas) { //nolint:gosec // a machine has few
		out = append(out, networkInterface(s, card, min(card, 1), "efa"))
	}
	if len(out) == 0 {
		out = append(out, networkInterface(s, 0, 0, ""))
	}
	return out
}

func networkInterface(s *shot, card, device int32, kind string) types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	spec := &s.class.Spec
	out := types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: aws.Int32(device)}
	if kind != "" {
		out.NetworkCardIndex, out.InterfaceType = aws.Int32(card), aws.String(kind)
	}
	for _, g := range s.class.Status.SecurityGroups {
		out.Groups = append(out.Groups, g.ID)
	}
	if kind == awsv1.InterfaceTypeEFAOnly { // it has no address
		return out
	}
	out.AssociatePublicIpAddress = spec.AssociatePublicIPAddress
	if s.isIPv6() {
		out.PrimaryIpv6, out.Ipv6AddressCount, out.Ipv6PrefixCount = aws.Bool(true), aws.Int32(1), spec.IPPrefixCount
	} else {
		out.Ipv4PrefixCount = spec.IPPrefixCount
	}
	if t := spec.ConnectionTracking; t != nil {
		out.ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{
			TcpEstablishedTimeout: t.TCPEstablishedTimeout, UdpStreamTimeout: t.UDPStreamTimeout, UdpTimeout: t.UDPTimeout,
		}
	}
	return out
}

// isIPv6 tells whether the cluster's addresses are of IPv6, as its DNS is.
func (s *shot) isIPv6() bool {
	address, err := netip.ParseAddr(s.dns)
	return err == nil && address.Is6()
}
