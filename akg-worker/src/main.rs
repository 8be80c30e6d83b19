//! The worker program. Started by akg, not by people.

fn main() {
    akg_worker::init();
    eprintln!(
        "akg-worker runs kernels for akg, which starts it when needed. There is nothing to do by hand."
    );
    std::process::exit(2);
}
