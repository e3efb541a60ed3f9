package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/core/label"
	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// PodClaim is one volume claim of a pod, with everything by which it decides where the
// pod may go.
type PodClaim struct {
	Name string
	// Ephemeral claims are made for the pod, and go with it.
	Ephemeral bool
	// Claim, Volume (the one that the claim names) and Class are nil when they are not there.
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
	Class  *storagev1.StorageClass
	// Unclaimed are the volumes of the class that no claim has, in the order of names.
	Unclaimed []*corev1.PersistentVolume
	// TakenBy is the pod that has a claim which only one pod may use; empty: nobody else.
	TakenBy string
	// Host is the hostname label of the node that kube-scheduler chose for the volume to
	// be made on; empty: there is no such node.
	Host string
}

// ClaimsOf returns the claims that a pod uses, by name alone, each once.
func ClaimsOf(p *corev1.Pod) []PodClaim {
	var claims []PodClaim
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		var c PodClaim
		switch {
		case v.PersistentVolumeClaim != nil:
			c.Name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			c = PodClaim{Name: ephemeral.VolumeClaimName(p, v), Ephemeral: true}
		default:
			continue
		}
		if !slices.ContainsFunc(claims, func(o PodClaim) bool { return o.Name == c.Name }) {
			claims = append(claims, c)
		}
	}
	return claims
}

// Volumes returns what the claims ask of the node of the pod, as kube-scheduler sees it.
//
// moves: the pod still runs, and its replacement will be another pod. Volumes on local disks of
// the node will be gone with the node, and volumes made for the pod with the pod, so they do not
// decide where the replacement goes.
func Volumes(p *corev1.Pod, claims []PodClaim, moves bool) cluster.Volumes {
	out := cluster.Volumes{Terms: []label.Requirements{{}}, Attach: quantity.List{}}
	counted := map[string]bool{}
	var met [][]label.Requirements // what earlier claims ask, each once: claims of one class ask the same
	for i := range claims {
		c := &claims[i]
		terms, problem := c.terms(p, moves)
		asksTheSame := func(earlier []label.Requirements) bool {
			return slices.EqualFunc(earlier, terms, label.Requirements.Equal)
		}
		if problem == "" && !slices.ContainsFunc(met, asksTheSame) {
			met = append(met, terms)
			if out.Terms = cluster.Meet(out.Terms, terms); len(out.Terms) == 0 {
				problem = "needs other topology domains than the pod's other volumes"
			}
		}
		if problem != "" {
			return cluster.Volumes{Invalid: "volume claim " + c.Name + " " + problem}
		}
		if driver, handle := c.Attachment(); driver != "" && !counted[driver+"/"+handle] {
			counted[driver+"/"+handle] = true
			out.Attach[quantity.AttachPrefix+driver]++
		}
	}
	return out
}

// terms returns where a volume for the claim is or can be made, or the problem for which that is
// not known.
func (c *PodClaim) terms(p *corev1.Pod, moves bool) (terms []label.Requirements, problem string) {
	switch {
	case c.Claim == nil && c.Ephemeral:
		return nil, "has not been made yet"
	case c.Claim == nil:
		return nil, "does not exist"
	case c.Ephemeral && !metav1.IsControlledBy(c.Claim, p):
		return nil, "was not made for this pod"
	case c.Ephemeral && moves && c.Class != nil:
		return allowedTopologies(c.Class), ""
	case c.Claim.DeletionTimestamp != nil:
		return nil, "is being deleted"
	case c.Claim.Status.Phase == corev1.ClaimLost:
		return nil, "has lost its volume"
	case c.TakenBy != "":
		return nil, "is for one pod only, and pod " + c.TakenBy + " has it"
	case c.Claim.Spec.VolumeName != "":
		return c.bound(moves)
	default:
		return c.unbound()
	}
}

func (c *PodClaim) bound(moves bool) (terms []label.Requirements, problem string) {
	name := c.Claim.Spec.VolumeName
	switch {
	case !metav1.HasAnnotation(c.Claim.ObjectMeta, volume.AnnBindCompleted):
		return nil, fmt.Sprintf("is not bound to volume %s yet", name)
	case c.Volume == nil:
		return nil, fmt.Sprintf("is bound to volume %s, which does not exist", name)
	}
	local := moves && (c.Volume.Spec.Local != nil || c.Volume.Spec.HostPath != nil)
	if terms = reach(c.Volume, local); len(terms) == 0 {
		problem = fmt.Sprintf("is bound to volume %s, which no node can reach", name)
	}
	return terms, problem
}

func (c *PodClaim) unbound() (terms []label.Requirements, problem string) {
	class := volume.GetPersistentVolumeClaimClass(c.Claim)
	selected, isSelected := c.Claim.Annotations[volume.AnnSelectedNode]
	switch {
	case class == "":
		return nil, "has neither a volume nor a storage class"
	case c.Class == nil:
		return nil, fmt.Sprintf("asks for storage class %s, which does not exist", class)
	case c.Class.VolumeBindingMode == nil || *c.Class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, fmt.Sprintf("waits for a volume, which storage class %s makes without a pod", class)
	case isSelected && c.Host == "":
		return nil, fmt.Sprintf("waits for a volume on node %s, which does not exist", selected)
	case isSelected:
		return []label.Requirements{{label.Hostname: label.In(c.Host)}}, ""
	}
	for _, pv := range c.Unclaimed {
		if suits(pv, c.Claim) {
			terms = append(terms, reach(pv, false)...)
		}
	}
	if c.provisions() {
		terms = append(terms, allowedTopologies(c.Class)...)
	}
	if len(terms) == 0 {
		problem = fmt.Sprintf("finds no free volume of storage class %s, which makes none", class)
	}
	return terms, problem
}

// provisions reports whether volumes of the storage class are made on demand.
func (c *PodClaim) provisions() bool {
	return c.Class.Provisioner != "" && c.Class.Provisioner != volume.NotSupportedProvisioner
}

// suits reports whether an unbound volume can be bound to the claim, wherever the volume is.
func suits(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	anywhere := *pv
	anywhere.Spec.NodeAffinity = nil
	found, err := volume.FindMatchingVolume(claim, []*corev1.PersistentVolume{&anywhere}, &corev1.Node{}, nil, true, true)
	return err == nil && found != nil
}

// reach returns the alternatives of a volume's node affinity, each with the zone and region that
// the volume's labels name; none: no node can use it. ignoreHost leaves hostnames out.
func reach(pv *corev1.PersistentVolume, ignoreHost bool) []label.Requirements {
	terms := []label.Requirements{{}}
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		terms = nil
		for i := range a.Required.NodeSelectorTerms {
			if r, ok := reachTerm(&a.Required.NodeSelectorTerms[i], ignoreHost); ok {
				terms = append(terms, r)
			}
		}
	}
	for _, key := range []string{
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	} {
		if value, ok := pv.Labels[key]; ok {
			terms = cluster.Meet(terms, []label.Requirements{{NormalKey(key): label.In(strings.Split(value, "__")...)}})
		}
	}
	return terms
}

// reachTerm returns one term of a volume's node affinity. It is not ok if no node can
// satisfy it: a term without expressions, one that asks for a field, which
// kube-scheduler supports for no volume, or one that cannot be read.
func reachTerm(t *corev1.NodeSelectorTerm, ignoreHost bool) (r label.Requirements, ok bool) {
	if len(t.MatchFields) > 0 || len(t.MatchExpressions) == 0 {
		return nil, false
	}
	r = label.Requirements{}
	for _, e := range t.MatchExpressions {
		q, err := label.Parse(label.Operator(e.Operator), e.Values)
		if err != nil {
			return nil, false
		}
		if key := NormalKey(e.Key); !ignoreHost || key != label.Hostname {
			r.Add(key, q)
		}
	}
	return r, true
}

// allowedTopologies returns where the class makes volumes.
func allowedTopologies(class *storagev1.StorageClass) []label.Requirements {
	if len(class.AllowedTopologies) == 0 {
		return []label.Requirements{{}}
	}
	var terms []label.Requirements
	for _, t := range class.AllowedTopologies {
		if len(t.MatchLabelExpressions) == 0 {
			continue // matches nothing
		}
		r := label.Requirements{}
		for _, e := range t.MatchLabelExpressions {
			r.Add(NormalKey(e.Key), label.In(e.Values...))
		}
		terms = append(terms, r)
	}
	return terms
}
