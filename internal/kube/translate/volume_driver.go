package translate

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/dovetail-sh/dovetail/internal/core/quantity"
)

// Attachment returns which driver must attach which volume for the claim; no driver: attachments
// of this volume are not limited. A volume that is yet to be made is identified by its claim.
func (c *PodClaim) Attachment() (driver, handle string) {
	switch {
	case c.Claim == nil:
		return "", ""
	case c.Volume != nil:
		return VolumeHandle(c.Volume)
	case c.Class == nil || !c.provisions():
		return "", ""
	default:
		return driverOf(c.Class.Provisioner), "claim " + c.Claim.Namespace + "/" + c.Claim.Name
	}
}

// VolumeHandle returns the CSI driver that attaches a volume, and the driver's name for
// it; no driver: the volume is not attached by one.
func VolumeHandle(pv *corev1.PersistentVolume) (driver, handle string) {
	switch s := &pv.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return s.CSI.Driver, s.CSI.VolumeHandle
	case s.AWSElasticBlockStore != nil:
		return driverOf("kubernetes.io/aws-ebs"), s.AWSElasticBlockStore.VolumeID
	case s.GCEPersistentDisk != nil:
		return driverOf("kubernetes.io/gce-pd"), s.GCEPersistentDisk.PDName
	case s.AzureDisk != nil:
		return driverOf("kubernetes.io/azure-disk"), s.AzureDisk.DataDiskURI
	case s.AzureFile != nil:
		return driverOf("kubernetes.io/azure-file"), s.AzureFile.ShareName
	case s.Cinder != nil:
		return driverOf("kubernetes.io/cinder"), s.Cinder.VolumeID
	case s.VsphereVolume != nil:
		return driverOf("kubernetes.io/vsphere-volume"), s.VsphereVolume.VolumePath
	case s.PortworxVolume != nil:
		return driverOf("kubernetes.io/portworx-volume"), s.PortworxVolume.VolumeID
	default:
		return "", ""
	}
}

// driverOf returns the CSI driver behind a provisioner: itself, or the one that took over
// from the code that was once in Kubernetes.
func driverOf(provisioner string) string {
	switch provisioner {
	case "kubernetes.io/aws-ebs":
		return "ebs.csi.aws.com"
	case "kubernetes.io/gce-pd":
		return "pd.csi.storage.gke.io"
	case "kubernetes.io/azure-disk":
		return "disk.csi.azure.com"
	case "kubernetes.io/azure-file":
		return "file.csi.azure.com"
	case "kubernetes.io/cinder":
		return "cinder.csi.openstack.org"
	case "kubernetes.io/vsphere-volume":
		return "csi.vsphere.vmware.com"
	case "kubernetes.io/portworx-volume":
		return "pxd.portworx.com"
	default:
		return provisioner
	}
}

// AttachLimits returns how many volumes of each of its drivers a node can attach. Of a driver that
// does not say it can attach any number.
func AttachLimits(n *storagev1.CSINode) quantity.List {
	limits := quantity.List{}
	for _, d := range n.Spec.Drivers {
		limits[quantity.AttachPrefix+d.Name] = quantity.Unlimited
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[quantity.AttachPrefix+d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return limits
}
