// A provider of instances for Dovetail (--cloud-provider=remote), to start from. Its instances are
// entries of a JSON file, so they survive a restart; where a cloud would be asked, a comment says so.
//
//   node provider.js unix:///tmp/p.sock state.json
'use strict';
const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PROTO = process.env.PROVIDER_PROTO || path.join(__dirname, '../../api/provider/v1/provider.proto');
// longs: Number, because amounts are below 2^53. No defaults: an absent price is not a price of 0.
const { Provider } = grpc.loadPackageDefinition(loader.loadSync(PROTO, { keepCase: true, longs: Number, enums: String })).dovetail.provider.v1;

const GROUP = 'example.dovetail.sh';
const KIND = 'ExampleNodeClass';
const ZONE = 'topology.kubernetes.io/zone';
const CAPACITY = 'karpenter.sh/capacity-type';
const TYPE = 'node.kubernetes.io/instance-type';
const DECIDED_MS = 500; // how long launches take that are decided later
const ALIVE_MS = 20000; // the protocol wants a sign of life every 30 seconds

// ---- What there is: instances by token, which a cloud would keep as tags of its instances. ----

class Store {
  constructor(file) {
    this.file = file;
    this.byToken = new Map(fs.existsSync(file) ? JSON.parse(fs.readFileSync(file)).map((i) => [i.token, i]) : []);
  }
  save() { // whole or not at all
    fs.writeFileSync(this.file + '.new', JSON.stringify([...this.byToken.values()]));
    fs.renameSync(this.file + '.new', this.file);
  }
  all() { return [...this.byToken.values()].map((i) => this.decide(i)); }
  decide(i) { // what a cloud does that accepts launches: the ID, or the failure, comes later
    if (!i.accepted || i.id || i.failed || Date.now() < i.created_unix_ms + DECIDED_MS) return i;
    if (i.accepted === 'fails') i.failed = { kind: 'FAILURE_KIND_NO_CAPACITY', message: 'it could not be had after all' };
    else i.id = `example://${i.token}`;
    this.save();
    return i;
  }
  add(instance) { this.byToken.set(instance.token, instance); this.save(); return instance; }
  remove(id) { const i = this.find(id); if (i) { this.byToken.delete(i.token); this.save(); } }
  find(id) { return this.all().find((i) => i.id === id || i.provisional_id === id); }
}

// ---- What can be launched. ----

const GIB = 2 ** 30;
const types = [1, 2, 4, 8, 16].map((cpu) => ({
  name: `metal-${cpu}`,
  requirements: [{ key: 'kubernetes.io/arch', in: ['amd64'] }, { key: 'kubernetes.io/os', in: ['linux'] }],
  capacity: { cpu: cpu * 1000, memory: cpu * 4 * GIB, 'ephemeral-storage': 100 * GIB, pods: 110 },
  overhead: { cpu: 100, memory: GIB / 4 },
  offerings: ['rack-a', 'rack-b'].map((zone) => ({ zone, capacity_type: 'on-demand', price_hourly: cpu * 0.03, available: true })),
}));
let revision = '1'; // another one whenever types change; changed() sends it to who follows
const followers = new Set();

function changed(offering, type) { // call it when a price or the availability of an offering changes
  revision = String(Number(revision) + 1);
  for (const call of followers) call.write({ revision, changes: [{ type, offering }] });
}

// ---- The calls. ----

const failed = (code, details) => ({ code, details });
const { status } = grpc;

function provider(store, epoch) {
  const pending = new Map(); // launches under way, by token: the same token twice at once is one instance

  function spec(cls) { return JSON.parse(Buffer.from(cls.spec_json || 'null').toString() || 'null') || {}; }

  async function launch(item, cluster) {
    const had = store.byToken.get(item.token);
    if (had) return { token: item.token, instance: store.decide(had) };
    const { unready, accepted } = spec(item.class);
    if (unready) {
      return { token: item.token, failure: { kind: 'FAILURE_KIND_CLASS_NOT_READY', message: 'the class says that it is not ready' } };
    }
    // Best first: take the first offering that can be had.
    for (const o of item.offerings || []) {
      const type = types.find((t) => t.name === o.type);
      const sold = type && type.offerings.find((s) => s.zone === o.zone && s.capacity_type === o.capacity_type && s.available);
      if (!sold) continue;
      // Here a cloud would be asked for an instance, with the token as its idempotency key and as a tag.
      // Its Node must come up with item.labels and item.taints, and with the ID below as providerID.
      return {
        token: item.token,
        instance: store.add({
          accepted, ...(accepted ? { provisional_id: `example://accepted-${item.token}` } : { id: `example://${item.token}` }), token: item.token, claim: item.claim, cluster_uid: cluster.uid, created_unix_ms: Date.now(),
          labels: { [TYPE]: type.name, [ZONE]: o.zone, [CAPACITY]: o.capacity_type, 'kubernetes.io/arch': 'amd64', 'kubernetes.io/os': 'linux' },
          capacity: type.capacity,
          allocatable: Object.fromEntries(Object.entries(type.capacity).map(([k, v]) => [k, v - (type.overhead[k] || 0)])),
        }),
      };
    }
    return { token: item.token, failure: { kind: 'FAILURE_KIND_NO_CAPACITY', message: 'none of the offerings can be had', places: item.offerings } };
  }

  function once(item, cluster) {
    if (!pending.has(item.token)) pending.set(item.token, launch(item, cluster).finally(() => pending.delete(item.token)));
    return pending.get(item.token);
  }

  return {
    Describe(call, answer) {
      answer(null, {
        name: 'example', version: '0.0.0', epoch, instance_id_prefix: 'example://',
        class_kinds: [{ group: GROUP, version: 'v1', kind: KIND }],
        vocabulary: { well_known: ['kubernetes.io/arch', 'kubernetes.io/os', ZONE, CAPACITY, TYPE], restricted_domains: [GROUP] },
        capabilities: ['CAPABILITY_CATALOG_FOLLOW', 'CAPABILITY_DRIFT', 'CAPABILITY_DRIFT_BATCH', 'CAPABILITY_ACCEPTED_LAUNCHES'],
        patience: { launch_ms: 600000, registration_ms: 1200000 }, // the longest of any class
      });
    },

    Catalog(call) {
      const { have_revision: have, follow } = call.request;
      call.write(have === revision ? { revision, last: true } : { revision, reset: true, last: true, types });
      if (!follow) return call.end();
      const alive = setInterval(() => call.write({ revision }), ALIVE_MS);
      followers.add(call);
      call.on('cancelled', () => { clearInterval(alive); followers.delete(call); call.end(); });
    },

    Launch(call, answer) {
      const { items = [], cluster = {} } = call.request;
      Promise.all(items.map((item) => once(item, cluster))).then((results) => answer(null, { results }), (err) => answer(failed(status.INTERNAL, String(err))));
    },

    Terminate(call, answer) {
      const ends = {};
      for (const id of call.request.ids || []) {
        store.remove(id); // a cloud would be asked, and gone be false until it is
        ends[id] = { gone: true };
      }
      answer(null, { ends });
    },

    Get(call, answer) {
      const instance = store.find(call.request.id);
      if (instance) answer(null, { instance });
      else answer(failed(status.NOT_FOUND, `there is no instance ${call.request.id}`));
    },

    List(call) {
      const uid = (call.request.cluster || {}).uid;
      const ours = store.all().filter((i) => i.cluster_uid === uid);
      for (let n = 0; n < ours.length; n += 200) call.write({ instances: ours.slice(n, n + 200) });
      call.write({ last: true });
      call.end();
    },

    Drift(call, answer) { // each ID is in one of the three lists; one in none of them is asked about again
      const ids = call.request.ids || [];
      answer(null, { not_found: ids.filter((id) => !store.find(id)), not_drifted: ids.filter((id) => store.find(id)) });
    },
  };
}

function main([address, file]) {
  if (!address || !file) {
    console.error('usage: node provider.js unix:///path/to/socket STATE.json');
    process.exit(2);
  }
  const socket = address.replace(/^unix:\/\//, '');
  if (socket !== address) fs.rmSync(socket, { force: true });
  const server = new grpc.Server();
  server.addService(Provider.service, provider(new Store(file), `${process.pid}-${Date.now()}`));
  server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (err) => {
    if (err) throw err;
    if (socket !== address) fs.chmodSync(socket, 0o600);
    console.log(`listening on ${address}`);
  });
  process.on('SIGTERM', () => server.tryShutdown(() => process.exit(0)));
}

if (require.main === module) main(process.argv.slice(2));
module.exports = { provider, Store, changed };
