package awssim

import "time"

// join boots the machine and hands its Node to the registrar.
func (s *Sim) join(in *instance, now time.Time) {
	_ = now
	in.node = in.name(s.opts.Region)
}

// leave tells the registrar that a machine whose Node joined is gone.
func (s *Sim) leave(in *instance) {
	if name := in.node; name != "" && s.opts.Registrar != nil {
		s.deferred = append(s.deferred, func() { s.opts.Registrar.Leave(name) })
	}
}
