package convert

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// All converts objects to v1. Objects of other kinds are returned as they are, but for the labels
// and annotations of older versions that they name.
func All(objects []Object, opts Options) (Result, error) {
	c := &converter{opts: opts}
	for i := range objects {
		o := Object{Where: objects[i].Where, Content: runtime.DeepCopyJSON(objects[i].Content)}
		c.about = o.String()
		if err := c.object(&o); err != nil {
			return Result{}, fmt.Errorf("%s: %s: %w", o.Where, c.about, err)
		}
	}
	c.placeKubelets()
	return c.out, nil
}

// object converts one object.
func (c *converter) object(o *Object) error {
	made := []map[string]any{o.Content}
	switch o.version() {
	case "karpenter.sh/v1 NodePool", "karpenter.sh/v1beta1 NodePool":
		c.nodePool(o.Content)
	case "karpenter.sh/v1 NodeClaim", "karpenter.sh/v1beta1 NodeClaim":
		c.nodeClaim(o.Content)
	case "karpenter.k8s.aws/v1 EC2NodeClass", "karpenter.k8s.aws/v1beta1 EC2NodeClass":
		if !c.nodeClass(o.Content) {
			return nil
		}
	case "karpenter.sh/v1alpha5 Provisioner":
		made = c.provisioner(o.Content)
	case "karpenter.sh/v1alpha5 Machine":
		made = []map[string]any{c.machine(o.Content)}
	case "karpenter.k8s.aws/v1alpha1 AWSNodeTemplate":
		made = c.nodeTemplate(o.Content)
	default:
		c.other(o.Content)
	}
	for _, content := range made {
		next := Object{Where: o.Where, Content: content}
		if err := c.strip(content); err != nil {
			return err
		}
		c.out.Objects = append(c.out.Objects, next)
	}
	return nil
}

// placeKubelets moves the kubelet's configuration of NodePools into their node classes, where v1 has
// it: into the class itself if all pools of the class here agree, else into a copy for the pool.
func (c *converter) placeKubelets() {
	classes, pools := map[string]map[string]any{}, map[string][]map[string]any{}
	for _, o := range c.out.Objects {
		switch o.version() {
		case "karpenter.k8s.aws/v1 EC2NodeClass":
			classes[text(at(o.Content, "metadata", "name"))] = o.Content
		case "karpenter.sh/v1 NodePool":
			name := text(at(o.Content, "spec", "template", "spec", "nodeClassRef", "name"))
			pools[name] = append(pools[name], o.Content)
		}
	}
	for i := range len(c.out.Objects) {
		pool := c.out.Objects[i].Content
		ref, _ := at(pool, "spec", "template", "spec", "nodeClassRef").(map[string]any)
		kubelet := at(pool, "spec", "template", "spec", "kubelet")
		if c.out.Objects[i].version() != "karpenter.sh/v1 NodePool" || kubelet == nil {
			continue
		}
		c.about = c.out.Objects[i].String()
		const field = "spec.template.spec.kubelet"
		name := text(ref["name"])
		class := classes[name]
		switch {
		case class == nil:
			c.note(Changed, field, "kept, and honoured by Dovetail alone: v1 has it in the EC2NodeClass; convert it together with EC2NodeClass %s to have it moved", name)
		case agree(pools[name], kubelet) && (at(class, "spec", "kubelet") == nil || reflect.DeepEqual(at(class, "spec", "kubelet"), kubelet)):
			put(class, "spec.kubelet", runtime.DeepCopyJSONValue(kubelet))
			c.note(Changed, field, "is spec.kubelet of EC2NodeClass %s now", name)
			if last(pools[name], pool) { // the others still have to be compared
				for _, p := range pools[name] {
					take(p, field)
				}
			}
		default:
			own := runtime.DeepCopyJSON(class)
			newName := name + "-" + text(at(pool, "metadata", "name"))
			put(own, "metadata.name", newName)
			put(own, "spec.kubelet", take(pool, field))
			ref["name"] = newName
			c.out.Objects = append(c.out.Objects, Object{Where: c.out.Objects[i].Where, Content: own})
			c.note(Changed, field, "is spec.kubelet of EC2NodeClass %s now, a copy of %s; nodes of the pool are replaced for that", newName, name)
		}
	}
}

// agree reports whether all pools have the same kubelet.
func agree(pools []map[string]any, kubelet any) bool {
	for _, p := range pools {
		if !reflect.DeepEqual(at(p, "spec", "template", "spec", "kubelet"), kubelet) {
			return false
		}
	}
	return true
}

func last(pools []map[string]any, pool map[string]any) bool {
	return reflect.ValueOf(pools[len(pools)-1]).Pointer() == reflect.ValueOf(pool).Pointer()
}
