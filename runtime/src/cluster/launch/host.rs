//! What the operating system says about this machine and who runs on it.
//!
//! # Why this is sound
//! Each unsafe call is a C function on memory that this module owns for the length of the call: a buffer with its true
//! length for the name, and the list of interfaces, which is only read, node by node, before it is freed.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The user as whom this process acts.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing and can't fail.
    unsafe { libc::geteuid() }
}

/// The cores of this machine, of which this process may have fewer.
pub(crate) fn cores() -> usize {
    // SAFETY: takes a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer has the length that is given.
    let status = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    match String::from_utf8_lossy(&name[..end]) {
        text if status == 0 && !text.is_empty() => text.into_owned(),
        _ => "localhost".to_owned(),
    }
}

/// The addresses under which other machines may reach this one: none of loopback or of one link only.
pub(crate) fn addresses() -> Vec<IpAddr> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the list is written to a pointer of ours, and freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut node = list;
    while !node.is_null() {
        // SAFETY: a node of the list, which nobody changes before it is freed.
        let interface = unsafe { &*node };
        // SAFETY: the address of an interface is null, or is as long as its family says.
        found.extend(unsafe { ip(interface.ifa_addr) }.filter(far));
        node = interface.ifa_next;
    }
    // SAFETY: the list that getifaddrs gave, once.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(IpAddr::is_ipv6);
    found.dedup();
    found
}

/// # Safety
/// The address is null or points to a socket address as long as its family says.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family; then the caller's word for the length.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let address = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                let address = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

fn far(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_loopback() && !v6.is_unicast_link_local() && !v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_name_and_no_address_is_loopback() {
        let known = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| host());
        assert_eq!(host(), known.trim());
        assert!(addresses().iter().all(far));
    }
}
