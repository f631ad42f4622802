#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rust-project.py KERNEL-PROJECT SERIES SOURCES SYSROOT OBJECTS

Prints the rust-project.json of the module. KERNEL-PROJECT is what the kernel's generator wrote inside SYSROOT, SERIES the
kernel's series, SOURCES the folder rust/ of the checkout, OBJECTS the folder inside SYSROOT in which the module was built.
"""

import json
import sys


def main():
    project_path, series, sources, sysroot, objects = sys.argv[1:]
    with open(project_path, encoding="utf-8") as file:
        project = json.load(file)

    # The generator ran inside the sysroot; the editor runs outside.
    def outside(path):
        return sysroot + path if path.startswith("/") else path

    for key in ("sysroot", "sysroot_src"):
        if key in project:
            project[key] = outside(project[key])
    names = [crate["display_name"] for crate in project["crates"]]
    # What comes after the kernel crate are the kernel's samples and drivers.
    crates = project["crates"] = project["crates"][: names.index("kernel") + 1]
    for crate in crates:
        crate["root_module"] = outside(crate["root_module"])
        crate["is_workspace_member"] = False
        if "proc_macro_dylib_path" in crate:
            crate["proc_macro_dylib_path"] = outside(crate["proc_macro_dylib_path"])
        if "OBJTREE" in crate["env"]:
            crate["env"]["OBJTREE"] = outside(crate["env"]["OBJTREE"])
        for kind, folders in crate.get("source", {}).items():
            crate["source"][kind] = [outside(folder) for folder in folders]

    def add(name, root, deps, cfg, env):
        crates.append({
            "display_name": name,
            "root_module": f"{sources}/{root}",
            "is_workspace_member": True,
            "deps": [{"crate": [c["display_name"] for c in crates].index(dep), "name": dep} for dep in deps],
            "cfg": cfg,
            "edition": "2021",
            "env": env,
            "source": {"include_dirs": [sources, *env.values()], "exclude_dirs": []},
        })

    cfg = next(crate["cfg"] for crate in crates if crate["display_name"] == "kernel")
    add("hw", "hw/lib.rs", ["core"], [], {})
    # As rust/Kbuild has it.
    series_cfg = ["linux_7_2"] if series == "7.2" else []
    deps = [dep for dep in ("core", "kernel", "pin_init", "zerocopy", "zerocopy_derive", "hw")
            if dep == "hw" or dep in names]
    add("rkfd_main", "rkfd_main.rs", deps, cfg + series_cfg, {"RKFD_OBJ": outside(objects)})
    json.dump(project, sys.stdout, indent=1)
    print()


main()
