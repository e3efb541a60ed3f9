package simulate

// Gates are the controller's feature gates that decide about launches.
type Gates struct {
	// CapacityBuffer: room is kept for CapacityBuffers. StaticCapacity: NodePools with replicas have
	// that many nodes.
	CapacityBuffer, StaticCapacity bool
}
