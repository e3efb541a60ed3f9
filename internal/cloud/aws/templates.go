package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/singleflight"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instance"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
)

const (
	templatePrefix = awsv1.Group + "/"
	// ownPrefix begins the names of our launch templates. Karpenter's begin with templatePrefix
	// and have the same tags: ours must be distinguishable from those of a Karpenter that ran
	// before us, or runs beside us.
	ownPrefix = templatePrefix + "dovetail-"
	// templateKept is how long an unused launch template is kept. EC2 has room for 5,000.
	templateKept = time.Hour
	// templatePage is how many launch templates a page has.
	templatePage = 200
	// newMost is how many launch templates are made for one fleet while the rate limit has room.
	// The offerings that would need more are left out.
	newMost = 8
	// userDataMost is how many bytes EC2 takes.
	userDataMost = 16384
)

// templates are the launch templates of the cluster. The name of each is a hash of its content,
// so that no process makes the same one twice.
type templates struct {
	opts     *Options
	clients  *clients
	limits   *limiter
	types    *instanceTypes
	userData userDataMaker

	making singleflight.Group // by name

	mu       sync.Mutex
	used     map[string]time.Time // by name; those known to exist
	hydrated bool                 // with what a predecessor left
}

// templatedChoice is an offering with its launch template and image.
type templatedChoice struct {
	catalog.Choice
	template, image string
}

// ensure makes the launch templates of a fleetSpec that do not exist yet, and returns the
// offerings that have one, each with its template and image.
func (t *templates) ensure(ctx context.Context, s *fleetSpec, tags map[string]string) ([]templatedChoice, error) {
	m, err := t.types.market.get(ctx)
	if err != nil {
		return nil, err
	}
	config, err := t.types.config(ctx, s.class)
	if err != nil {
		return nil, &cloud.Failure{Kind: cloud.Rejected, Message: err.Error()}
	}
	allowed := max(1, int(newMost*t.limits.left("CreateLaunchTemplate")))
	names := map[string]string{} // by variant; empty: left out
	region := t.types.region(m)
	var out []templatedChoice
	for _, choice := range s.choices {
		info, image := m.info(choice.Type.Name), imageOf(s.class, choice.Type)
		if info == nil || image == "" {
			return nil, &cloud.Failure{Kind: cloud.Rejected, Reason: "AMINotFound", Message: fmt.Sprintf("node class %s has no image for %s", s.class.Name, choice.Type.Name)}
		}
		settings, _ := instance.Settings(info, region, config) // the class's status says what fails
		v := variant{image: image, settings: settings, reservation: choice.Offering.Reservation}
		if s.efa && len(s.class.Spec.NetworkInterfaces) == 0 && info.NetworkInfo != nil && info.NetworkInfo.EfaInfo != nil {
			v.efas = int(aws.ToInt32(info.NetworkInfo.EfaInfo.MaximumEfaInterfaces))
		}
		key := v.key()
		name, seen := names[key]
		left, needed := &allowed, s.needed[choice.Type.Name]
		if needed { // minValues cannot do without it
			one := 1
			left = &one
		}
		if !seen || name == "" && needed {
			data, err := t.data(ctx, s, config, &v, tags)
			if err != nil {
				return nil, err
			}
			if name, err = t.obtain(ctx, data, tags, left); err != nil {
				return nil, err
			}
			names[key] = name
		}
		if name != "" {
			out = append(out, templatedChoice{choice, name, image})
		}
	}
	return out, nil
}

// obtain returns the name of the launch template with this content. If there is none, it
// makes one and lowers allowed by one; if allowed is 0, it returns an empty name.
func (t *templates) obtain(ctx context.Context, data *types.RequestLaunchTemplateData, tags map[string]string, allowed *int) (string, error) {
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

// use notes that a launch template is needed, and reports whether there is one.
func (t *templates) use(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.used[name]
	if known {
		t.used[name] = t.opts.Now()
	}
	return known
}

// variant is what instance types must have in common to share a launch template.
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

// make makes a launch template. If one of the name exists, it has the same content.
func (t *templates) make(ctx context.Context, name string, data *types.RequestLaunchTemplateData, tags map[string]string) error {
	_, err := t.clients.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
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
	t.used[name] = t.opts.Now()
	return nil
}

// forget drops what is known of the launch templates of a fleet, because one of them is gone.
func (t *templates) forget(of *fleetRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range of.Input.LaunchTemplateConfigs {
		delete(t.used, aws.ToString(c.LaunchTemplateSpecification.LaunchTemplateName))
	}
}

// hydrate reads the launch templates that earlier processes made, once.
func (t *templates) hydrate(ctx context.Context) error {
	t.mu.Lock()
	hydrated := t.hydrated
	t.mu.Unlock()
	if hydrated {
		return nil
	}
	names, err := t.list(ctx, filter("tag:"+awsv1.TagEKSClusterName, t.opts.ClusterName))
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		if _, known := t.used[name]; !known && strings.HasPrefix(name, ownPrefix) {
			t.used[name] = t.opts.Now()
		}
	}
	t.hydrated = true
	return nil
}

func (t *templates) list(ctx context.Context, filters ...types.Filter) ([]string, error) {
	var names []string
	pages := ec2.NewDescribeLaunchTemplatesPaginator(t.clients.EC2, &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: aws.Int32(templatePage)})
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

// sweep deletes the launch templates that were not used for templateKept.
func (t *templates) sweep(ctx context.Context) error {
	t.mu.Lock()
	var idle []string
	for name, used := range t.used {
		if t.opts.Now().Sub(used) > templateKept {
			idle = append(idle, name)
			delete(t.used, name)
		}
	}
	t.mu.Unlock()
	return t.remove(ctx, idle)
}

// removeOf deletes the launch templates of a class.
func (t *templates) removeOf(ctx context.Context, class string) error {
	names, err := t.list(ctx, filter("tag:"+awsv1.TagEKSClusterName, t.opts.ClusterName), filter("tag:"+awsv1.TagNodeClass, class))
	if err != nil {
		return err
	}
	return t.remove(ctx, names)
}

func (t *templates) remove(ctx context.Context, names []string) error {
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		_, err := t.clients.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
		t.mu.Lock()
		if err != nil && !isNotFound(errorCode(err)) {
			errs = append(errs, fmt.Errorf("delete launch template %s: %w", name, err))
			t.used[name] = t.opts.Now().Add(-templateKept) // the next sweep tries again
		} else {
			delete(t.used, name)
		}
		t.mu.Unlock()
	}
	return errors.Join(errs...)
}
