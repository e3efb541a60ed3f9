package awssim

import "time"

// noticePeriod is the time between a notice and the end.
const noticePeriod = 2 * time.Minute

// interrupt gives a spot instance its notice; when the time is over it goes.
func (s *Sim) interrupt(_ *Fault, in *instance, now time.Time) {
	in.interrupted = now
	s.notify("aws.ec2", "EC2 Spot Instance Interruption Warning", in, map[string]any{
		"instance-id": in.id, "instance-action": "terminate",
	}, now)
	s.at(now.Add(noticePeriod), func(now time.Time) { s.terminate(in, "Server.SpotInstanceTermination", now) })
}

// reclaim takes an interruptible reservation's instance back.
func (s *Sim) reclaim(_ *Fault, in *instance, now time.Time) {
	in.interrupted = now
	s.notify("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", in, map[string]any{
		"instance-id": in.id, "instance-action": "terminate",
	}, now)
	s.at(now.Add(noticePeriod), func(now time.Time) { s.terminate(in, "Server.CapacityReservationInterruption", now) })
}

// rebalance says that an instance is at risk.
func (s *Sim) rebalance(_ *Fault, in *instance, now time.Time) {
	s.notify("aws.ec2", "EC2 Instance Rebalance Recommendation", in, map[string]any{"instance-id": in.id}, now)
}

// maintain schedules an instance's retirement.
func (s *Sim) maintain(f *Fault, in *instance, now time.Time) {
	in.maintenance = now.Add(f.Delay.Duration)
	s.notify("aws.health", "AWS Health Event", in, map[string]any{
		"service": "EC2", "eventTypeCategory": "scheduledChange", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
		"eventArn":         s.arn("health", "event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/"+in.id),
		"startTime":        in.maintenance.UTC().Format(time.RFC1123),
		"endTime":          in.maintenance.Add(time.Hour).UTC().Format(time.RFC1123),
		"affectedEntities": []map[string]string{{"entityValue": in.id}},
	}, now)
	s.at(in.maintenance, func(now time.Time) { s.terminate(in, "Server.ScheduledStop", now) })
}

// setState moves an instance on and tells the queue.
func (s *Sim) setState(in *instance, state string, now time.Time) {
	in.state = state
	s.notify("aws.ec2", "EC2 Instance State-change Notification", in, map[string]any{"instance-id": in.id, "state": state}, now)
}
