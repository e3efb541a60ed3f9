package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	karpenterv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/core/catalog"
	"github.com/dovetail-sh/dovetail/internal/core/cluster"
	"github.com/dovetail-sh/dovetail/internal/decision/record"
	"github.com/dovetail-sh/dovetail/internal/decision/whatif"
	"github.com/dovetail-sh/dovetail/internal/operator"
)

// termsPatience bounds how long it is tried to ask a controller by what it decides.
const termsPatience = 10 * time.Second

// askTerms takes over what the controller that leads can launch, its prices and its settings. Where none can be
// asked, and none was named, the catalog and the defaults stay, and that is said.
func (f *whatIfFlags) askTerms(ctx context.Context, in *whatif.Input) error {
	if len(f.snapshot) > 0 && f.address == "" {
		return nil
	}
	d, err := f.terms(ctx)
	if err == nil {
		err = useTerms(in, d)
	}
	if err == nil || f.address != "" {
		return err
	}
	in.Presumes = append([]string{fmt.Sprintf("The controller's prices and settings are not known: %s. Those of the catalog and the defaults are used.", err)}, in.Presumes...)
	return nil
}

// terms asks the controller.
func (f *whatIfFlags) terms(ctx context.Context) (*record.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, termsPatience)
	defer cancel()
	address, err := f.locate(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+operator.TermsPath, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, &statusError{error: err, status: statusUnreachable}
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	if answer.StatusCode != http.StatusOK {
		return nil, askedInVain(address, answer)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, viewBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	d, err := record.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", address, err)
	}
	return d, nil
}

// useTerms has a question answered by what a controller can launch and how it is set. It is an error if the
// controller is that of another cluster.
func useTerms(in *whatif.Input, d *record.Decision) error {
	byClass, known := map[karpenterv1.NodeClassReference][]*catalog.Type{}, 0
	for _, o := range in.Objects {
		np, is := o.(*karpenterv1.NodePool)
		if !is || np.Spec.Template.Spec.NodeClassRef == nil {
			continue
		}
		at := slices.IndexFunc(d.Snapshot.Pools, func(p cluster.Pool) bool { return p.Name == np.Name })
		if at < 0 {
			continue
		}
		known++
		byClass[*np.Spec.Template.Spec.NodeClassRef] = d.Snapshot.Pools[at].Types
	}
	if known < len(d.Snapshot.Pools) {
		return errors.New("the controller that answers has other NodePools than the cluster")
	}
	other := in.From.TypesOf
	in.From.TypesOf = func(np *karpenterv1.NodePool) []*catalog.Type {
		if types, has := byClass[*np.Spec.Template.Spec.NodeClassRef]; has {
			return types
		}
		return other(np)
	}
	in.Options.Pack, in.Options.Disrupt = d.Pack, d.Disrupt
	in.Presumes = []string{"Offerings, prices and settings are those that the controller has now. Node classes without a NodePool are taken from the catalog in this program, or from Cluster API's objects."}
	return nil
}
