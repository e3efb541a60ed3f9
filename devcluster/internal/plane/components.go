package plane

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as the components' own mains do
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
)

// components are the parsed options of the three Kubernetes components. Each method runs
// one of them until its context ends.
type components struct {
	api *apioptions.ServerRunOptions
	cm  *kcmoptions.KubeControllerManagerOptions
	sc  *scheduleroptions.Options
}

// newComponents parses all flags and sets the feature gates, which are common to all.
func newComponents(h *home.Home, listener net.Listener, o Options) (*components, error) {
	cm, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	c := &components{api: apioptions.NewServerRunOptions(), cm: cm, sc: scheduleroptions.NewOptions()}
	if err := parse("kube-apiserver", c.api.Flags(), apiserverFlags(h, listener.Addr(), o.Gangs)); err != nil {
		return nil, err
	}
	if err := parse("kube-controller-manager", c.cm.Flags(kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()), kcmFlags(h, o.Gangs)); err != nil {
		return nil, err
	}
	if err := writeSchedulerConfig(h, o.SchedulerConfig); err != nil {
		return nil, err
	}
	if err := parse("kube-scheduler", *c.sc.Flags, schedulerFlags(h)); err != nil {
		return nil, err
	}
	c.api.SecureServing.Listener = listener
	// The components talk to deprecated kinds; their warnings are not for our users.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return c, c.api.GenericServerRunOptions.ComponentGlobalsRegistry.Set()
}

func parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, fs := range sets.FlagSets {
		all.AddFlagSet(fs)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("flags of %s: %w", name, err)
	}
	return nil
}

func (c *components) apiserver(ctx context.Context) error {
	o, err := c.api.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := o.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	return apiserver.Run(ctx, o)
}

func (c *components) controllerManager(ctx context.Context) error {
	config, err := c.cm.Config(ctx, kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases())
	if err != nil {
		return err
	}
	return kcm.Run(ctx, config.Complete())
}

func (c *components) scheduler(ctx context.Context) error {
	config, s, err := scheduler.Setup(ctx, c.sc)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, config, s)
}
