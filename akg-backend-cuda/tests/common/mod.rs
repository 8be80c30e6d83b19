//! Artifacts of small kernels.

use akg_core::conformance::Probe;
use akg_core::image::{Images, KernelImage, Parameter, Report};
use akg_core::source::{Artifact, LaunchPlan, TensorRole};

/// An artifact of format `format` with one code for all kernels of its plan. Their parameters are their tensors and all
/// dims.
pub(crate) fn artifact(format: &str, plan: LaunchPlan, code: &[u8], threads: u32) -> Artifact {
    let kernels = plan.launches.iter().map(|launch| KernelImage {
        kernel: launch.kernel.clone(),
        symbol: launch.kernel.clone(),
        threads,
        cluster: 1,
        shared_bytes: 0,
        parameters: (0..launch.tensors.len())
            .map(Parameter::Tensor)
            .chain((0..plan.dims.len()).map(|dim| Parameter::Dim { dim, bytes: 8 }))
            .collect(),
        report: Report::default(),
        code: code.to_vec(),
    });
    let images = Images {
        kernels: kernels.collect(),
    };
    with_images(format, plan, &images)
}

/// An artifact of these images.
pub(crate) fn with_images(format: &str, plan: LaunchPlan, images: &Images) -> Artifact {
    Artifact {
        format: format.to_owned(),
        bytes: images.encode().unwrap(),
        plan,
        metadata: Default::default(),
    }
}

/// The plan of [`Probe::Double`] with another kernel.
pub(crate) fn plan_of(kernel: &str) -> LaunchPlan {
    let mut plan = Probe::Double.plan();
    for launch in &mut plan.launches {
        launch.kernel = kernel.into();
    }
    assert_eq!(plan.with_role(TensorRole::Scratch).count(), 0);
    plan
}
