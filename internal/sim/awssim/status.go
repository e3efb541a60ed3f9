package awssim

import (
	"slices"
	"strings"
	"time"
)

// describeStatus answers DescribeInstanceStatus: running instances only, unless asked for
// all.
func (s *instances) describeStatus(c *call) (any, error) {
	all, err := s.named(c, c.form.texts("InstanceId"))
	if err != nil {
		return nil, err
	}
	if !c.form.flag("IncludeAllInstances") {
		all = slices.DeleteFunc(all, func(in *instance) bool { return in.state != stateRunning })
	}
	return describeAll(c, "instanceStatusSet", 1000, all, described[*instance]{
		key: func(in *instance) string { return in.id }, tags: func(in *instance) map[string]string { return in.tags },
		property: s.statusProperty,
		write: func(in *instance) fields {
			out := fields{
				{"instanceId", in.id},
				{"availabilityZone", in.subnet.Zone},
				{"instanceState", stateFields(in.state)},
				{"instanceStatus", in.status()},
				{"systemStatus", healthy()},
			}
			if !in.maintenance.IsZero() {
				out = append(out, field{"eventsSet", list{fields{
					{"code", "instance-retirement"},
					{"description", "The instance is running on degraded hardware"},
					{"notBefore", in.maintenance},
					{"instanceEventId", "instance-event-" + in.id[2:]},
				}}})
			}
			return out
		},
	})
}

func healthy() fields {
	return fields{{"status", "ok"}, {"details", list{fields{{"name", "reachability"}, {"status", "passed"}}}}}
}

func (in *instance) status() fields {
	if in.impairedSince.IsZero() {
		return healthy()
	}
	return fields{{"status", "impaired"}, {"details", list{fields{
		{"name", "reachability"}, {"status", "failed"}, {"impairedSince", in.impairedSince},
	}}}}
}

func (s *instances) statusProperty(in *instance, filter string) ([]string, bool) {
	switch {
	case filter == "instance-status.status":
		return only(in.status().text("status"))
	case filter == "system-status.status":
		return only("ok")
	case filter == "event.code":
		if in.maintenance.IsZero() {
			return nil, true
		}
		return only("instance-retirement")
	case strings.HasPrefix(filter, "event."), strings.HasSuffix(filter, "-status.reachability"):
		return nil, true
	default:
		return s.instanceProperty(in, filter)
	}
}

// impair makes an instance's status check fail.
func (s *instances) impair(_ *Fault, in *instance, now time.Time) { in.impairedSince = now }
