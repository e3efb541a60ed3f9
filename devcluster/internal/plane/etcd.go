package plane

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/dovetail-sh/dovetail/devcluster/internal/home"
	"github.com/dovetail-sh/dovetail/devcluster/internal/logs"
)

const etcdTimeout = 60 * time.Second

// etcdURL is what the API server dials: a unix socket, so that no second port is needed.
func etcdURL(h *home.Home) string { return "unix://" + h.Socket("etcd.sock") }

func startEtcd(ctx context.Context, h *home.Home) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Name = "devcluster"
	cfg.Dir = h.Path("etcd")
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: h.Socket("etcd.sock")}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: h.Socket("etcd-peer.sock")}}
	// Nobody dials what is advertised, but etcd insists that it reads host:port.
	nowhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = nowhere, nowhere
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logs.Etcd(h.Dir))
	// Not waiting for the disk loses nothing when the process is killed, only when the
	// machine is, and saves a good part of the time of every write.
	cfg.UnsafeNoFsync = true
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "revision", "10000"
	cfg.QuotaBackendBytes = 4 << 30
	cfg.MaxTxnOps = 1024
	cfg.TickMs, cfg.ElectionMs = 50, 500 // a single member: elect itself sooner
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(etcdTimeout):
		err = fmt.Errorf("not ready after %s", etcdTimeout)
	}
	e.Close()
	return nil, err
}
