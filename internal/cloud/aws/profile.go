package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	// profileNameMost is how long IAM lets the name of an instance profile be.
	profileNameMost = 128
	// profileKept is how long a profile that was found is not looked for again.
	profileKept = 15 * time.Minute
	// profileKeptIdle is how long one stays that nothing needs: a launch may be under way.
	profileKeptIdle = time.Hour
)

var validProfileName = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// profiles makes the instance profiles of classes that name a role, and deletes those that
// nothing needs.
type profiles struct {
	opts    *Options
	clients *clients
	made    cache[string] // those that were found or made, by name
	// idle is since when profiles are needed by nothing, by name. Only sweep uses it.
	idle map[string]time.Time
}

// resolve puts the instance profile of a class into its status.
func (p *profiles) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (finding, error) {
	name, err := p.ensure(ctx, class)
	if errors.Is(err, errNoRole) {
		return finding{reason: "RoleNotFound", message: "IAM has no role " + class.Spec.Role + ", which spec.role names", again: missingAgain}, nil
	}
	if err != nil {
		return finding{}, err
	}
	class.Status.InstanceProfile = name
	return finding{}, nil
}

// ensure returns the instance profile of a class, after making it where the class
// names a role.
func (p *profiles) ensure(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	if class.Spec.Role == "" {
		return aws.ToString(class.Spec.InstanceProfile), nil
	}
	return p.made.get(ctx, p.name(class), func(ctx context.Context) (string, error) {
		return p.make(ctx, class)
	})
}

// name returns the instance profile for a role in a class: always the same one, so
// that a half-made one is found again and finished.
func (p *profiles) name(class *awsv1.EC2NodeClass) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.opts.Config.Region, string(class.UID), class.Name, class.Spec.Role}, "\n")))
	suffix := "_" + hex.EncodeToString(sum[:8])
	cluster := p.opts.ClusterName
	return cluster[:min(len(cluster), profileNameMost-len(suffix))] + suffix
}

// path is where the instance profiles of a class are.
func (p *profiles) path(class *awsv1.EC2NodeClass) string {
	return fmt.Sprintf("/karpenter/%s/%s/%s/", p.opts.Config.Region, p.opts.ClusterName, class.UID)
}

func (p *profiles) make(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	name := p.name(class)
	role := class.Spec.Role[strings.LastIndex(class.Spec.Role, "/")+1:] // IAM wants it without its path
	found, err := p.clients.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	var roles []types.Role
	switch {
	case err == nil:
		roles = found.InstanceProfile.Roles
	case isNotFound(errorCode(err)):
		if err := p.create(ctx, class, name); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("get instance profile %s: %w", name, err)
	}
	if len(roles) == 1 && aws.ToString(roles[0].RoleName) == role {
		return name, nil
	}
	for _, other := range roles {
		if _, err := p.clients.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: other.RoleName}); err != nil {
			return "", fmt.Errorf("remove role %s from instance profile %s: %w", aws.ToString(other.RoleName), name, err)
		}
	}
	if _, err := p.clients.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role}); err != nil {
		if isRoleGone(err) {
			err = errNoRole
		}
		return "", fmt.Errorf("add role %s to instance profile %s: %w", role, name, err)
	}
	return name, nil
}

// errNoRole is the error of a class whose role does not exist.
var errNoRole = errors.New("there is no such role")

// isRoleGone reports whether IAM has not found a role. It has one code for roles and for instance
// profiles, of which a new one may not be found for a while.
func isRoleGone(err error) bool {
	var refusal smithy.APIError
	return errors.As(err, &refusal) && isNotFound(refusal.ErrorCode()) && strings.Contains(refusal.ErrorMessage(), "role with name")
}

func (p *profiles) create(ctx context.Context, class *awsv1.EC2NodeClass, name string) error {
	var list []types.Tag
	for _, t := range tagList(p.tags(class)) {
		list = append(list, types.Tag{Key: t.Key, Value: t.Value})
	}
	_, err := p.clients.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
		InstanceProfileName: &name, Path: aws.String(p.path(class)), Tags: list,
	})
	if err != nil && !strings.HasPrefix(errorCode(err), "EntityAlreadyExists") {
		return fmt.Errorf("create instance profile %s: %w", name, err)
	}
	return nil
}

// tags returns the tags of a class's instance profile. To IAM keys that differ in
// case alone are the same, and twice the same is an error: ours count, and then the first.
func (p *profiles) tags(class *awsv1.EC2NodeClass) map[string]string {
	tags := map[string]string{
		awsv1.TagClusterPrefix + p.opts.ClusterName: awsv1.TagClusterOwned,
		awsv1.TagEKSClusterName:                     p.opts.ClusterName,
		awsv1.TagNodeClass:                          class.Name,
		corev1.LabelTopologyRegion:                  p.opts.Config.Region,
	}
	taken := map[string]bool{}
	for key := range tags {
		taken[strings.ToLower(key)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(class.Spec.Tags)) {
		if lower := strings.ToLower(key); !taken[lower] {
			taken[lower], tags[key] = true, class.Spec.Tags[key]
		}
	}
	return tags
}

// legacyName is that of the instance profile that early versions of Karpenter made for
// a class; later ones delete it with the class (1.14).
func (p *profiles) legacyName(class string) string {
	h := fnv.New64()
	h.Write([]byte(p.opts.Config.Region + class))
	return fmt.Sprintf("%s_%d", p.opts.ClusterName, h.Sum64())
}

// deleteLegacy deletes the instance profile that Karpenter once made for a class, if
// there is one and its tags say that it is the class's. It is not ours: where that is not
// allowed, its name is logged.
func (p *profiles) deleteLegacy(ctx context.Context, class string) error {
	name := p.legacyName(class)
	if !validProfileName.MatchString(name) {
		return nil
	}
	found, err := p.clients.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if isNotFound(errorCode(err)) {
		return nil
	}
	if err == nil {
		tags := map[string]string{}
		for _, t := range found.InstanceProfile.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		if tags[awsv1.TagClusterPrefix+p.opts.ClusterName] != awsv1.TagClusterOwned || tags[awsv1.TagNodeClass] != class {
			return nil
		}
		err = p.delete(ctx, found.InstanceProfile)
	}
	if err != nil && reasonOf(errorCode(err), "") == "Unauthorized" {
		p.opts.Log.Warn("an instance profile that Karpenter made may be left; delete it if nothing needs it", "instance_profile", name, "class", class, "error", err)
		return nil
	}
	return err
}

// deleteUnder deletes the instance profiles under a path but those to keep.
func (p *profiles) deleteUnder(ctx context.Context, path string, keep func(name string) bool) error {
	var errs []error
	pages := iam.NewListInstanceProfilesPaginator(p.clients.IAM, &iam.ListInstanceProfilesInput{PathPrefix: &path})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list instance profiles: %w", err)
		}
		for i := range page.InstanceProfiles {
			if !keep(aws.ToString(page.InstanceProfiles[i].InstanceProfileName)) {
				errs = append(errs, p.delete(ctx, &page.InstanceProfiles[i]))
			}
		}
	}
	return errors.Join(errs...)
}

func (p *profiles) delete(ctx context.Context, profile *types.InstanceProfile) error {
	name := profile.InstanceProfileName
	for i := range profile.Roles {
		_, err := p.clients.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: profile.Roles[i].RoleName})
		if err != nil && !isNotFound(errorCode(err)) {
			return fmt.Errorf("remove role from instance profile %s: %w", *name, err)
		}
	}
	_, err := p.clients.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	if err != nil && !isNotFound(errorCode(err)) {
		return fmt.Errorf("delete instance profile %s: %w", *name, err)
	}
	p.made.drop(*name)
	return nil
}

// sweep deletes the instance profiles of this cluster that have been idle for long:
// no class has them, and no instance. A class whose role was changed has another than before.
func (p *profiles) sweep(ctx context.Context, running func(context.Context) (map[string]ec2Instance, error)) error {
	if p.opts.IsolatedVPC {
		return nil
	}
	var classes awsv1.EC2NodeClassList
	if err := p.opts.Reader.List(ctx, &classes); err != nil {
		return fmt.Errorf("list node classes: %w", err)
	}
	instances, err := running(ctx)
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for i := range classes.Items {
		needed[p.name(&classes.Items[i])], needed[classes.Items[i].Status.InstanceProfile] = true, true
	}
	for _, m := range instances {
		needed[m.Profile] = true
	}
	now, idle := p.opts.Now(), map[string]time.Time{}
	prefix := fmt.Sprintf("/karpenter/%s/%s/", p.opts.Config.Region, p.opts.ClusterName)
	err = p.deleteUnder(ctx, prefix, func(name string) bool {
		if needed[name] {
			return true
		}
		since, seen := p.idle[name]
		if !seen {
			since = now
		}
		idle[name] = since
		return now.Sub(since) < profileKeptIdle
	})
	if err == nil {
		p.idle = idle
	}
	return err
}
