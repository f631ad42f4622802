// SPDX-License-Identifier: GPL-2.0
/* The shims of include/rkfd_shims.h that are about PCI devices and their links. */
#include <linux/pci.h>
#include <linux/pci-p2pdma.h>

#include "rkfd_shims.h"

int rkfd_pci_domain_nr(struct pci_dev *pdev)
{
	return pci_domain_nr(pdev->bus);
}

/* MT/s of a lane */
static u32 lane_speed(enum pci_bus_speed speed)
{
	switch (speed) {
	case PCIE_SPEED_2_5GT:
		return 2500;
	case PCIE_SPEED_5_0GT:
		return 5000;
	case PCIE_SPEED_8_0GT:
		return 8000;
	case PCIE_SPEED_16_0GT:
		return 16000;
	case PCIE_SPEED_32_0GT:
		return 32000;
	case PCIE_SPEED_64_0GT:
		return 64000;
	default:
		return 0;
	}
}

/*
 * The most megabytes a second of the links between the device and the root of its bus, eight bits a
 * byte; 0 if no link tells it.
 */
u32 rkfd_pci_link_mbs(struct pci_dev *pdev)
{
	u32 least = U32_MAX, width, mbs;

	for (; pdev; pdev = pci_upstream_bridge(pdev)) {
		if (!pci_is_pcie(pdev))
			continue;
		width = pcie_get_width_cap(pdev);
		mbs = width == PCIE_LNK_WIDTH_UNKNOWN ?
			0 : width * lane_speed(pcie_get_speed_cap(pdev)) / 8;
		if (mbs)
			least = min(least, mbs);
	}
	return least == U32_MAX ? 0 : least;
}

/* True if the device does atomic operations that others send to it. */
bool rkfd_pci_completes_atomics(struct pci_dev *pdev)
{
	u32 capabilities = 0;

	pcie_capability_read_dword(pdev, PCI_EXP_DEVCAP2, &capabilities);
	return capabilities & (PCI_EXP_DEVCAP2_ATOMIC_COMP32 | PCI_EXP_DEVCAP2_ATOMIC_COMP64);
}

bool rkfd_pci_reaches(struct device *client, struct device *provider)
{
	return dev_is_pci(client) && dev_is_pci(provider) &&
	       pci_p2pdma_distance(to_pci_dev(provider), client, false) >= 0;
}

static bool redirects(struct pci_dev *pdev)
{
	u16 control = 0;

	if (pdev->acs_cap)
		pci_read_config_word(pdev, pdev->acs_cap + PCI_ACS_CTRL, &control);
	return control & (PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC);
}

/*
 * The condition for PCI_P2PDMA_MAP_BUS_ADDR of pci_p2pdma_map_type(), which modules cannot call:
 * there is a bridge above both devices, and no port on the path to it redirects requests up to
 * the host bridge.
 */
bool rkfd_pci_is_switched(struct device *client, struct device *provider)
{
	struct pci_dev *a, *b;

	if (!dev_is_pci(client) || !dev_is_pci(provider))
		return false;
	for (a = to_pci_dev(provider); a; a = pci_upstream_bridge(a)) {
		if (redirects(a))
			return false;
		for (b = to_pci_dev(client); b && b != a; b = pci_upstream_bridge(b))
			;
		if (b)
			break;
	}
	for (b = to_pci_dev(client); a && b != a; b = pci_upstream_bridge(b))
		if (redirects(b))
			return false;
	return a;
}

/*
 * The bus address of the CPU's address @start, which is in a BAR of the provider, a PCI device.
 */
u64 rkfd_pci_bus_address(struct device *provider, u64 start)
{
	struct resource res = DEFINE_RES_MEM(start, 1);
	struct pci_bus_region region;

	pcibios_resource_to_bus(to_pci_dev(provider)->bus, &region, &res);
	return region.start;
}
