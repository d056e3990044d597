//! Options of input and output as the values of a plan, and back.

use std::time::Duration;

use remaster_media::{Encoding, Filters};
use remaster_restore::Resize;
use remaster_units::{Asked, AskedSource, AskedTarget, Resolution, UnitsError};

use super::{Size, Source, Target};

impl Source {
    /// What a plan holds of it.
    pub(crate) fn asked(&self) -> AskedSource {
        let time = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let [start, end] = [self.start, self.end].map(|at| at.map(time));
        let filters = self.filters.as_ref().map(Asked::filters);
        let Source { rate, deinterlace, keep_hdr, keep_damaged, exr, .. } = *self;
        AskedSource { start, end, filters, rate, deinterlace, keep_hdr, keep_damaged, exr }
    }

    /// The same as a plan has it. Filters that a plan cannot hold are those that were typed here.
    pub(crate) fn planned(self, plan: &AskedSource, typed: Option<&Filters>) -> Result<Self, UnitsError> {
        let filters = match &plan.filters {
            Some(asked) => Some(asked.with(typed)?),
            None => none(typed.is_some(), "--vf", "filters")?,
        };
        Ok(Source {
            start: plan.start.map(Duration::from_nanos),
            end: plan.end.map(Duration::from_nanos),
            filters,
            rate: plan.rate,
            deinterlace: plan.deinterlace,
            keep_hdr: plan.keep_hdr,
            keep_damaged: plan.keep_damaged,
            exr: plan.exr,
            ..self
        })
    }
}

impl Size {
    /// The size that a plan holds.
    pub(crate) fn asked(&self) -> Option<Resolution> {
        let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match self.resolution? {
            Resize::Keep => None,
            Resize::Short(n) => Some(Resolution::Short(side(n))),
            Resize::Exactly(size) => Some(Resolution::Exactly(size.map(side))),
            Resize::Times(n) => Some(Resolution::Percent(side(n))),
        }
    }

    /// The same as a plan has it.
    pub(crate) fn planned(self, plan: Option<Resolution>, edges: remaster_picture::Edges) -> Self {
        let resolution = plan.map(|plan| match plan {
            Resolution::Short(n) => Resize::Short(n as usize),
            Resolution::Exactly(size) => Resize::Exactly(size.map(|n| n as usize)),
            Resolution::Percent(n) => Resize::Times(n as usize),
        });
        Size { resolution, edges }
    }
}

impl Target {
    /// What a plan holds of it.
    pub(crate) fn asked(&self) -> AskedTarget {
        let Target { encoder, crf, pixel_format, lossless, no_audio: silent, .. } = self.clone();
        AskedTarget { video: encoder.as_ref().map(Asked::encoding), crf, pixel_format, lossless, silent }
    }

    /// The same as a plan has it. Options that a plan cannot hold are those that were typed here.
    pub(crate) fn planned(
        self,
        plan: &AskedTarget,
        threads: u32,
        typed: Option<&Encoding>,
    ) -> Result<Self, UnitsError> {
        let encoder = match &plan.video {
            Some(asked) => Some(asked.with(typed)?),
            None => none(typed.is_some(), "--video", "encoder options")?,
        };
        Ok(Target {
            encoder,
            crf: plan.crf,
            encoder_threads: Some(threads),
            pixel_format: plan.pixel_format.clone(),
            lossless: plan.lossless,
            no_audio: plan.silent,
            ..self
        })
    }
}

/// Nothing, if nothing was typed that the plan does not have.
fn none<T>(typed: bool, option: &'static str, what: &'static str) -> Result<Option<T>, UnitsError> {
    if typed { Err(UnitsError::Repeat { option, what, other: true }) } else { Ok(None) }
}
