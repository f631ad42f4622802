// SPDX-License-Identifier: GPL-2.0
/* The topology files, by the rules of libhsakmt's parser. */
#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "kfd_harness.h"

#define NODES	KFD_TOPOLOGY "/nodes"

FIXTURE(topology)
{
	struct kfd_dev dev;
	unsigned int nodes;
};

static unsigned int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned int n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			n++;
	closedir(dir);
	return n;
}

FIXTURE_SETUP(topology)
{
	ASSERT_EQ(0, kfd_find_gpu(&self->dev));
	self->nodes = count_entries(NODES);
	ASSERT_LE(2, self->nodes);
}

FIXTURE_TEARDOWN(topology)
{
}

/* Returns a node's property, or @missing. */
static uint64_t node_value(unsigned int node, const char *key, uint64_t missing)
{
	char file[256];
	uint64_t value = missing;

	snprintf(file, sizeof(file), NODES "/%u/properties", node);
	kfd_property(file, key, &value);
	return value;
}

/*
 * Every line must be "name<space>unsigned decimal": scanf stops at the first that is not,
 * silently. @list_last: the last line may hold a list.
 */
static void check_format(struct __test_metadata *_metadata, const char *file,
			 bool list_last)
{
	char text[8192];
	char *line, *rest = text;
	FILE *f = fopen(file, "re");
	size_t n;

	ASSERT_NE(NULL, f) {
		TH_LOG("%s", file);
	}
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	ASSERT_LT(0, n);
	EXPECT_GT(4096, n);
	EXPECT_EQ('\n', text[n - 1]);
	while ((line = strsep(&rest, "\n")) && *line) {
		size_t name = strcspn(line, " ");
		const char *value = line + name + 1;
		size_t digits = strspn(value, "0123456789");
		bool list = list_last && strncmp(line, "sibling_map ", 12) == 0;

		EXPECT_LT(0, name);
		EXPECT_EQ(' ', line[name]);
		EXPECT_LT(0, digits);
		if (list)
			digits = strspn(value, "01,");
		EXPECT_EQ('\0', value[digits]) {
			TH_LOG("%s: '%s'", file, line);
		}
	}
}

TEST_F(topology, nodes_are_numbered)
{
	char path[64];
	struct stat st;
	unsigned int i;

	for (i = 0; i < self->nodes; i++) {
		snprintf(path, sizeof(path), NODES "/%u", i);
		EXPECT_EQ(0, stat(path, &st));
	}
}

TEST_F(topology, files_parse)
{
	static const struct {
		const char *dir, *count;
		bool list_last;
	} parts[] = {
		{ "mem_banks", "mem_banks_count", false },
		{ "caches", "caches_count", true },
		{ "io_links", "io_links_count", false },
		{ "p2p_links", "p2p_links_count", false },
	};
	unsigned int i, j, k;
	char path[256];

	check_format(_metadata, KFD_TOPOLOGY "/system_properties", false);
	for (i = 0; i < self->nodes; i++) {
		snprintf(path, sizeof(path), NODES "/%u/properties", i);
		check_format(_metadata, path, false);
		for (j = 0; j < ARRAY_SIZE(parts); j++) {
			uint64_t count = node_value(i, parts[j].count, UINT64_MAX);

			/* Each count must be printed, also when it is 0. */
			ASSERT_NE(UINT64_MAX, count) {
				TH_LOG("node %u lacks %s", i, parts[j].count);
			}
			snprintf(path, sizeof(path), NODES "/%u/%s", i, parts[j].dir);
			EXPECT_EQ(count, count_entries(path));
			for (k = 0; k < count; k++) {
				snprintf(path, sizeof(path), NODES "/%u/%s/%u/properties",
					 i, parts[j].dir, k);
				check_format(_metadata, path, parts[j].list_last);
			}
		}
	}
}

TEST_F(topology, generation_is_stable)
{
	char first[64] = "", second[64] = "";
	FILE *f = fopen(KFD_TOPOLOGY "/generation_id", "re");

	ASSERT_NE(NULL, f);
	ASSERT_NE(NULL, fgets(first, sizeof(first), f));
	fclose(f);
	f = fopen(KFD_TOPOLOGY "/generation_id", "re");
	ASSERT_NE(NULL, f);
	ASSERT_NE(NULL, fgets(second, sizeof(second), f));
	fclose(f);
	EXPECT_STREQ(first, second);
}

/* Node 0 is a CPU with memory: libhsakmt and ROCr rely on it. */
TEST_F(topology, cpu_node)
{
	uint64_t size = 0, heap = 99;

	EXPECT_LT(0, node_value(0, "cpu_cores_count", 0));
	EXPECT_EQ(0, node_value(0, "simd_count", 1));
	ASSERT_LE(1, node_value(0, "mem_banks_count", 0));
	EXPECT_TRUE(kfd_property(NODES "/0/mem_banks/0/properties", "heap_type", &heap));
	EXPECT_TRUE(kfd_property(NODES "/0/mem_banks/0/properties", "size_in_bytes", &size));
	EXPECT_EQ(0, heap);
	EXPECT_LT(0, size);
}

TEST_F(topology, gpu_node)
{
	const unsigned int gpu = self->dev.node;
	const uint64_t capability = node_value(gpu, "capability", 0);

	/* Zero in either makes libhsakmt divide by zero. */
	EXPECT_NE(0, node_value(gpu, "simd_per_cu", 0));
	EXPECT_NE(0, node_value(gpu, "simd_arrays_per_engine", 0));
	EXPECT_EQ(0, node_value(gpu, "cpu_cores_count", 1));
	EXPECT_EQ(4098, node_value(gpu, "vendor_id", 0));
	EXPECT_LT(0, node_value(gpu, "simd_count", 0));
	EXPECT_LT(0, node_value(gpu, "num_sdma_engines", 0));
	EXPECT_LT(0, node_value(gpu, "num_sdma_queues_per_engine", 0));
	EXPECT_EQ(64, node_value(gpu, "wave_front_size", 0));
	EXPECT_EQ(2, (capability >> 12) & 3);
	/* Shared virtual memory; svm_off tests a GPU without. */
	EXPECT_EQ(1, capability >> 27 & 1);
	/* Exceptions are told of: ROCr's second trap handler relies on it. */
	EXPECT_EQ(1, capability >> 29 & 1);
	EXPECT_LE(128, self->dev.drm_minor);
	EXPECT_GE(255, self->dev.drm_minor);
	EXPECT_GE(UINT16_MAX, self->dev.gpu_id);
	EXPECT_LE(80000, node_value(gpu, "gfx_target_version", 0));
}

/* The two chips that the model can be: MI210 with 104 CUs, and one XCC of MI300X. */
TEST_F(topology, gpu_node_is_the_models)
{
	static const struct {
		uint64_t device, version, simds;
	} chips[] = {
		{ 0x740f, 90010, 416 },
		{ 0x74a1, 90402, 152 },
	};
	const unsigned int gpu = self->dev.node;
	const uint64_t device = node_value(gpu, "device_id", 0);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(chips); i++)
		if (chips[i].device == device)
			break;
	ASSERT_GT(ARRAY_SIZE(chips), i);
	EXPECT_EQ(chips[i].version, node_value(gpu, "gfx_target_version", 0));
	/* The number of SIMDs is that of each XCC. */
	EXPECT_LE(1, node_value(gpu, "num_xcc", 0));
	EXPECT_EQ(chips[i].simds * node_value(gpu, "num_xcc", 0),
		  node_value(gpu, "simd_count", 0));
}

TEST_F(topology, links)
{
	unsigned int i, k;
	bool to_cpu = false;

	for (i = 0; i < self->nodes; i++) {
		uint64_t count = node_value(i, "io_links_count", 0);

		for (k = 0; k < count; k++) {
			char file[256];
			uint64_t from = 99, to = 99, weight = 99;

			snprintf(file, sizeof(file), NODES "/%u/io_links/%u/properties", i, k);
			EXPECT_TRUE(kfd_property(file, "node_from", &from));
			EXPECT_TRUE(kfd_property(file, "node_to", &to));
			EXPECT_TRUE(kfd_property(file, "weight", &weight));
			EXPECT_EQ(i, from);
			EXPECT_GT(self->nodes, to);
			EXPECT_NE(from, to);
			if (i == self->dev.node && to == 0) {
				to_cpu = true;
				EXPECT_GE(20, weight);
			}
		}
	}
	EXPECT_TRUE(to_cpu);
}

/* The number of links of @kind from one node to another, and the weight of the last one. */
static unsigned int links_between(unsigned int from, const char *kind, unsigned int to,
				  uint64_t *weight)
{
	unsigned int count = 0, i;
	char file[256];
	uint64_t node;

	for (i = 0; ; i++) {
		snprintf(file, sizeof(file), NODES "/%u/%s/%u/properties", from, kind, i);
		if (access(file, F_OK) || !kfd_property(file, "node_to", &node))
			return count;
		if (node != to)
			continue;
		count++;
		kfd_property(file, "weight", weight);
	}
}

/* True if the GPU of node @from has a link to that of node @to, directly. */
static bool is_linked(unsigned int from, unsigned int to)
{
	uint64_t weight;

	return from != to && node_value(from, "simd_count", 0) &&
	       node_value(to, "simd_count", 0) && links_between(from, "p2p_links", to, &weight);
}

/* amdgpu's parameter says whether GPUs reach each other's memory: RCCL reads it. */
TEST_F(topology, peers_parameter)
{
	FILE *f = fopen("/sys/module/amdgpu/parameters/pcie_p2p", "re");
	unsigned int from, to;
	bool linked = false;
	char text[8] = "";

	if (!f && !kfd_is_rkfd())
		SKIP(return, "a kernel without HSA_AMD_P2P");
	ASSERT_NE(NULL, f);
	EXPECT_NE(NULL, fgets(text, sizeof(text), f));
	fclose(f);
	if (!kfd_is_rkfd())
		return;
	for (from = 0; from < self->nodes; from++)
		for (to = 0; to < self->nodes; to++)
			linked |= is_linked(from, to);
	EXPECT_STREQ(linked ? "Y\n" : "N\n", text);
}

/* The NUMA node of a GPU's device, -1 if it is unknown. */
static int numa_node(unsigned int gpu)
{
	const uint64_t at = node_value(gpu, "location_id", 0);
	char file[128];
	int node = -1;
	FILE *f;

	snprintf(file, sizeof(file), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/numa_node",
		 (unsigned int)node_value(gpu, "domain", 0), (unsigned int)(at >> 8 & 0xff),
		 (unsigned int)(at >> 3 & 0x1f), (unsigned int)(at & 7));
	f = fopen(file, "re");
	if (f && fscanf(f, "%d", &node) != 1)
		node = -1;
	if (f)
		fclose(f);
	return node;
}

/*
 * Each NUMA node's processors have a node, and each GPU has a link to each of them, which is
 * direct for its own.
 */
TEST_F(topology, numa)
{
	unsigned int cpus = 0, numa = 0, gpu, i;
	char path[64];

	for (i = 0; i < self->nodes; i++)
		if (node_value(i, "cpu_cores_count", 0)) {
			EXPECT_EQ(i, cpus++);
		}
	for (i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", i);
		numa += access(path, F_OK) == 0;
	}
	TH_LOG("%u NUMA nodes", numa);
	EXPECT_EQ(numa, cpus);
	for (gpu = cpus; gpu < self->nodes; gpu++) {
		const int home = numa_node(gpu);

		for (i = 0; i < cpus; i++) {
			const bool own = i == (unsigned int)(home < 0 ? 0 : home);
			uint64_t there = 0, back = 0;

			EXPECT_EQ(own, links_between(gpu, "io_links", i, &there));
			EXPECT_EQ(!own, links_between(gpu, "p2p_links", i, &there));
			EXPECT_EQ(own, links_between(i, "io_links", gpu, &back));
			EXPECT_EQ(!own, links_between(i, "p2p_links", gpu, &back));
			EXPECT_EQ(there, back);
			if (own) {
				EXPECT_EQ(20, there);
			} else {
				EXPECT_LT(20, there);
			}
		}
	}
	for (i = 0; i < cpus; i++) {
		for (gpu = 0; gpu < cpus; gpu++) {
			uint64_t weight = 0;

			EXPECT_EQ(i != gpu, links_between(i, "io_links", gpu, &weight));
			if (i != gpu) {
				EXPECT_LE(10, weight);
			}
		}
	}
}

TEST_F(topology, vram_bank)
{
	char file[256];
	uint64_t heap = 99, size = 0;

	ASSERT_EQ(1, node_value(self->dev.node, "mem_banks_count", 0));
	snprintf(file, sizeof(file), NODES "/%u/mem_banks/0/properties", self->dev.node);
	EXPECT_TRUE(kfd_property(file, "heap_type", &heap));
	EXPECT_TRUE(kfd_property(file, "size_in_bytes", &size));
	EXPECT_TRUE(heap == 1 || heap == 2);
	EXPECT_LT(0, size);
	EXPECT_EQ(0, size % KFD_PAGE);
}

/*
 * The version in the header of a firmware file; 0 without that file: then another party has
 * loaded the firmware.
 */
static uint64_t file_version(const char *name)
{
	uint32_t header[5] = { 0 };
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "/lib/firmware/amdgpu/%s", name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fread(header, sizeof(header), 1, f) != 1)
		header[4] = 0;
	fclose(f);
	return header[4];
}

/* The firmware versions: clients show them, and depend on them. */
TEST_F(topology, firmware)
{
	const bool is_gfx942 = kfd_is_gfx942(&self->dev);
	const char *mec = is_gfx942 ? "gc_9_4_3_mec.bin" : "aldebaran_mec.bin";
	const char *engine = is_gfx942 ? "sdma_4_4_2.bin" : "aldebaran_sdma.bin";
	uint64_t compute = 0, sdma = 0;
	char file[256];

	snprintf(file, sizeof(file), NODES "/%u/properties", self->dev.node);
	EXPECT_TRUE(kfd_property(file, "fw_version", &compute));
	EXPECT_TRUE(kfd_property(file, "sdma_fw_version", &sdma));
	EXPECT_LT(0, compute);
	EXPECT_LT(0, sdma);
	if (file_version(mec)) {
		EXPECT_EQ(file_version(mec), compute);
		EXPECT_EQ(file_version(engine), sdma);
	}
}

/*
 * Each board has its own number, where it reports one: a board whose firmware rkfd has loaded
 * does. Clients tell boards apart by it.
 */
TEST_F(topology, numbers_of_boards)
{
	uint64_t told[32], number;
	unsigned int i, k, n = 0;

	for (i = 0; i < self->nodes && n < 32; i++) {
		if (node_value(i, "simd_count", 0) == 0)
			continue;
		number = node_value(i, "unique_id", 0);
		if (kfd_is_rkfd() && file_version("aldebaran_mec.bin")) {
			EXPECT_NE(0, number);
		}
		if (number)
			told[n++] = number;
	}
	if (!n)
		SKIP(return, "no board tells its number");
	for (i = 0; i < n; i++)
		for (k = 0; k < i; k++)
			EXPECT_NE(told[k], told[i]);
}

KFD_HARNESS_MAIN
