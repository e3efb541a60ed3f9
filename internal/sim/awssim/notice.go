package awssim

import (
	"time"
)

// noticePeriod is the time between a notice and the end.
const noticePeriod = 2 * time.Minute

// interrupt gives a spot instance its notice; when the time is over it goes.
func (s *instances) interrupt(_ *Fault, in *instance, now time.Time) {
	in.interrupted = now
	s.sqs.notify("aws.ec2", "EC2 Spot Instance Interruption Warning", in.id, map[string]any{
		"instance-id": in.id, "instance-action": "terminate",
	}, now)
	s.base.at(now.Add(noticePeriod), func(now time.Time) { s.terminate(in, "Server.SpotInstanceTermination", now) })
}

// reclaim takes an interruptible reservation's instance back.
func (s *instances) reclaim(_ *Fault, in *instance, now time.Time) {
	in.interrupted = now
	s.sqs.notify("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", in.id, map[string]any{
		"instance-id": in.id, "instance-action": "terminate",
	}, now)
	s.base.at(now.Add(noticePeriod), func(now time.Time) { s.terminate(in, "Server.CapacityReservationInterruption", now) })
}

// rebalance says that an instance is at risk.
func (s *instances) rebalance(_ *Fault, in *instance, now time.Time) {
	s.sqs.notify("aws.ec2", "EC2 Instance Rebalance Recommendation", in.id, map[string]any{"instance-id": in.id}, now)
}

// maintain schedules an instance's retirement.
func (s *instances) maintain(f *Fault, in *instance, now time.Time) {
	in.maintenance = now.Add(f.Delay.Duration)
	s.sqs.notify("aws.health", "AWS Health Event", in.id, map[string]any{
		"service": "EC2", "eventTypeCategory": "scheduledChange", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
		"eventArn":         s.base.arn("health", "event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/"+in.id),
		"startTime":        in.maintenance.UTC().Format(time.RFC1123),
		"endTime":          in.maintenance.Add(time.Hour).UTC().Format(time.RFC1123),
		"affectedEntities": []map[string]string{{"entityValue": in.id}},
	}, now)
	s.base.at(in.maintenance, func(now time.Time) { s.terminate(in, "Server.ScheduledStop", now) })
}
