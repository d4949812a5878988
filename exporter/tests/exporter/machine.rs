//! Machines with accelerators, as the kernel shows them: PCI devices, their drivers, their nodes, their sensors.

use crate::fixture::Tree;

/// A device on PCI.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pci<'a> {
    /// Its address.
    pub(crate) at: &'a str,
    /// Vendor, device and class, as sysfs prints them.
    pub(crate) ids: [&'a str; 3],
    /// The driver that has it.
    pub(crate) driver: &'a str,
    /// `drm/card0`, `accel/accel0`; or nothing.
    pub(crate) node: &'a str,
}

pub(crate) const DISPLAY: &str = "0x030000";
pub(crate) const CONTROLLER_3D: &str = "0x030200";
pub(crate) const ACCELERATOR: &str = "0x120000";
/// Signal processing, as AMD's NPUs call themselves.
pub(crate) const SIGNAL: &str = "0x118000";

impl Tree {
    /// Puts a device in place and returns its directory.
    pub(crate) fn pci(&self, pci: Pci<'_>) -> String {
        let dir = format!("devices/pci0000:00/{}", pci.at);
        for (name, text) in ["vendor", "device", "class"].into_iter().zip(pci.ids) {
            self.write(&format!("{dir}/{name}"), format!("{text}\n"));
        }
        self.write(&format!("{dir}/numa_node"), "0\n");
        self.link(&format!("bus/pci/devices/{}", pci.at), &format!("../../../{dir}"));
        if !pci.driver.is_empty() {
            self.write(&format!("bus/pci/drivers/{}/new_id", pci.driver), "");
            let target = format!("../../../bus/pci/drivers/{}", pci.driver);
            self.link(&format!("{dir}/driver"), &target);
        }
        if !pci.node.is_empty() {
            let target = format!("../../../{dir}");
            self.link(&format!("class/{}/device", pci.node), &target);
        }
        dir
    }

    /// Says whether a device sleeps.
    pub(crate) fn runtime_status(&self, dir: &str, status: &str) {
        self.write(&format!("{dir}/power/runtime_status"), format!("{status}\n"));
    }

    /// Sensors of a device under the name of its driver.
    pub(crate) fn sensors(&self, dir: &str, number: u32, name: &str, files: &[(&str, &str)]) {
        let hwmon = format!("{dir}/hwmon/hwmon{number}");
        self.write(&format!("{hwmon}/name"), format!("{name}\n"));
        for (file, text) in files {
            self.write(&format!("{hwmon}/{file}"), format!("{text}\n"));
        }
    }
}

/// AMD's table of format 3: package, NPU and graphics in milliwatts, and the power of each of sixteen cores.
pub(crate) fn table_3(socket: u32, npu: u16, gfx: u32, core: u16, clock_ns: u64) -> Vec<u8> {
    let mut table = vec![0_u8; 264];
    table[..4].copy_from_slice(&[8, 1, 3, 0]); // 264 bytes, format 3, content 0
    put(&mut table, 104, &clock_ns.to_le_bytes());
    put(&mut table, 112, &socket.to_le_bytes());
    put(&mut table, 116, &npu.to_le_bytes());
    put(&mut table, 124, &gfx.to_le_bytes());
    for number in 0..16 {
        put(&mut table, 136 + 2 * number, &core.to_le_bytes());
    }
    table
}

/// AMD's table 1.4: power of the package in watts, and its energy in units of 2^-16 J.
pub(crate) fn table_1_4(socket: u16, energy: u64, clock_ns: u64) -> Vec<u8> {
    let mut table = vec![0_u8; 296];
    table[..4].copy_from_slice(&[40, 1, 1, 4]); // 296 bytes, format 1, content 4
    put(&mut table, 10, &socket.to_le_bytes());
    put(&mut table, 24, &energy.to_le_bytes());
    put(&mut table, 32, &clock_ns.to_le_bytes());
    table
}

/// AMD's table 1.3: power of the package in watts, and an accumulator whose unit nobody states.
pub(crate) fn table_1_3(socket: u16, clock_ns: u64) -> Vec<u8> {
    let mut table = vec![0_u8; 120];
    table[..4].copy_from_slice(&[120, 0, 1, 3]); // 120 bytes, format 1, content 3
    put(&mut table, 22, &socket.to_le_bytes());
    put(&mut table, 32, &clock_ns.to_le_bytes());
    table
}

fn put(table: &mut [u8], at: usize, bytes: &[u8]) {
    table[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Strix Halo: an APU with its NPU asleep, and the numbers of a real one under load.
pub(crate) fn strix_halo() -> Tree {
    let tree = Tree::new::<&str>(&[]);
    let ids = ["0x1002", "0x1586", DISPLAY];
    let gpu = tree.pci(Pci { at: "0000:c3:00.0", ids, driver: "amdgpu", node: "drm/card1" });
    tree.runtime_status(&gpu, "active");
    tree.sensors(&gpu, 4, "amdgpu", &[("power1_input", "25050000"), ("power1_label", "PPT")]);
    tree.write(&format!("{gpu}/gpu_metrics"), table_3(25_502, 0, 8_245, 648, 1));
    let ids = ["0x1022", "0x17f0", SIGNAL];
    let npu = tree.pci(Pci { at: "0000:c4:00.1", ids, driver: "amdxdna", node: "accel/accel0" });
    tree.runtime_status(&npu, "suspended");
    tree
}

/// A node of eight MI300X, each with a partition that is no device, and its management controller's display.
pub(crate) fn mi300x() -> Tree {
    let tree = Tree::new::<&str>(&[]);
    for number in 0..8_u16 {
        let at = format!("0000:{:02x}:00.0", 0x05 + 0x10 * number);
        let (ids, node) = (["0x1002", "0x74a1", ACCELERATOR], format!("drm/card{}", 1 + number));
        let gpu = tree.pci(Pci { at: &at, ids, driver: "amdgpu", node: &node });
        tree.write(&format!("{gpu}/unique_id"), format!("{:016x}\n", 0xabc0 + number));
        let microwatts = format!("{}000000", 140 + number);
        tree.sensors(
            &gpu,
            number.into(),
            "amdgpu",
            &[("power1_input", &microwatts), ("power1_label", "PPT")],
        );
        tree.write(&format!("{gpu}/gpu_metrics"), table_1_4(140 + number, 1 << 32, 1));
        let partition = format!("devices/platform/amdgpu_xcp_{number}");
        tree.write(&format!("{partition}/modalias"), "platform:amdgpu_xcp\n");
        tree.link(
            &format!("class/drm/card{}/device", 9 + number),
            &format!("../../../{partition}"),
        );
    }
    let ids = ["0x1a03", "0x2000", DISPLAY];
    tree.pci(Pci { at: "0000:02:00.0", ids, driver: "ast", node: "drm/card0" });
    tree
}

/// MI250: two dies, of which the first measures both and the other reads zero.
pub(crate) fn mi250() -> Tree {
    let tree = Tree::new::<&str>(&[]);
    for (number, at, microwatts) in [(0, "0000:2f:00.0", "320000000"), (1, "0000:30:00.0", "0")] {
        let (ids, node) = (["0x1002", "0x740c", DISPLAY], format!("drm/card{number}"));
        let gpu = tree.pci(Pci { at, ids, driver: "amdgpu", node: &node });
        tree.sensors(&gpu, number, "amdgpu", &[("power1_average", microwatts)]);
        let socket = if number == 0 { 320 } else { u16::MAX };
        tree.write(&format!("{gpu}/gpu_metrics"), table_1_3(socket, 1));
    }
    tree
}

/// Two cards of AMD: on an older kernel, where power is an average, and on a newer one, where it is of the moment.
pub(crate) fn two_cards() -> Tree {
    let tree = Tree::new::<&str>(&[]);
    let cards = [
        (0, "0000:03:00.0", "0x73bf", &[("power1_average", "34000000")][..]),
        (
            1,
            "0000:0a:00.0",
            "0x744c",
            &[("power1_average", "61000000"), ("power1_input", "63500000")],
        ),
    ];
    for (number, at, device, files) in cards {
        let (ids, node) = (["0x1002", device, DISPLAY], format!("drm/card{number}"));
        let gpu = tree.pci(Pci { at, ids, driver: "amdgpu", node: &node });
        tree.sensors(&gpu, number, "amdgpu", files);
        // The older kernel shows no table.
        if number == 1 {
            tree.write(&format!("{gpu}/gpu_metrics"), table_1_3(61, 1));
        }
    }
    tree
}

/// A laptop whose iGPU has no sensor, with an NPU that has none either.
pub(crate) fn lunar_lake() -> Tree {
    let tree = Tree::new::<&str>(&[]);
    let ids = ["0x8086", "0x64a0", DISPLAY];
    let gpu = tree.pci(Pci { at: "0000:00:02.0", ids, driver: "xe", node: "drm/card0" });
    tree.runtime_status(&gpu, "active");
    tree.sensors(&gpu, 3, "xe", &[("temp2_input", "45000")]);
    let ids = ["0x8086", "0x643e", ACCELERATOR];
    tree.pci(Pci { at: "0000:00:0b.0", ids, driver: "intel_vpu", node: "accel/accel0" });
    tree
}

/// An Arc card, whose counters stand at these microjoules.
pub(crate) fn arc(driver: &str, counters: &[(&str, &str)]) -> (Tree, String) {
    let tree = Tree::new::<&str>(&[]);
    let ids = ["0x8086", "0x56a0", DISPLAY];
    let gpu = tree.pci(Pci { at: "0000:03:00.0", ids, driver, node: "drm/card1" });
    tree.runtime_status(&gpu, "active");
    tree.sensors(&gpu, 2, &format!("{driver}_gt0"), &[("energy1_input", "999")]);
    tree.sensors(&gpu, 5, driver, counters);
    (tree, gpu)
}
