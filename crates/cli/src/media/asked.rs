//! Options of input and output as the values of a plan, and back.

use std::time::Duration;

use remaster_media::{Encoding, Filters};
use remaster_pipeline::Resize;
use remaster_units::{Asked, AskedSource, AskedTarget, Deinterlacing, Resolution, UnitsError};

use super::args::{AudioMode, DeinterlaceMode, Policy, SizeArgs, SourceArgs, TargetArgs};
use super::words::Rate;

impl SourceArgs {
    /// What a plan holds of it.
    pub(crate) fn asked(&self) -> AskedSource {
        let time = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        AskedSource {
            start: self.ss.map(time),
            end: self.to.map(time),
            filters: self.vf.as_ref().map(Asked::filters),
            rate: self.fps.map(|rate| rate.0),
            deinterlace: match self.deinterlace {
                DeinterlaceMode::Auto => Deinterlacing::Auto,
                DeinterlaceMode::On => Deinterlacing::On,
                DeinterlaceMode::Double => Deinterlacing::Double,
                DeinterlaceMode::Ivtc => Deinterlacing::Ivtc,
                DeinterlaceMode::Off => Deinterlacing::Off,
            },
            keep_hdr: self.hdr == Policy::Keep,
            keep_damaged: self.damaged == Policy::Keep,
            exr: self.exr,
        }
    }

    /// The same as a plan has it. Filters that a plan cannot hold are those that were typed here.
    pub(crate) fn planned(self, plan: &AskedSource, typed: Option<&Filters>) -> Result<Self, UnitsError> {
        let vf = match &plan.filters {
            Some(asked) => Some(asked.with(typed)?),
            None => none(typed.is_some(), "--vf", "filters")?,
        };
        let policy = |keep: bool| if keep { Policy::Keep } else { Policy::Refuse };
        Ok(SourceArgs {
            ss: plan.start.map(Duration::from_nanos),
            to: plan.end.map(Duration::from_nanos),
            vf,
            fps: plan.rate.map(Rate),
            deinterlace: match plan.deinterlace {
                Deinterlacing::Auto => DeinterlaceMode::Auto,
                Deinterlacing::On => DeinterlaceMode::On,
                Deinterlacing::Double => DeinterlaceMode::Double,
                Deinterlacing::Ivtc => DeinterlaceMode::Ivtc,
                Deinterlacing::Off => DeinterlaceMode::Off,
            },
            hdr: policy(plan.keep_hdr),
            damaged: policy(plan.keep_damaged),
            exr: plan.exr,
            ..self
        })
    }

    /// The filters that were typed.
    pub(crate) fn filters(&self) -> Option<&Filters> {
        self.vf.as_ref()
    }
}

impl SizeArgs {
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
        SizeArgs { resolution, edges }
    }
}

impl TargetArgs {
    /// What a plan holds of it.
    pub(crate) fn asked(&self) -> AskedTarget {
        AskedTarget {
            video: self.video.as_ref().map(Asked::encoding),
            crf: self.crf,
            pixel_format: self.pixel_format.clone(),
            lossless: self.lossless,
            silent: self.is_silent(),
        }
    }

    /// The same as a plan has it. Options that a plan cannot hold are those that were typed here.
    pub(crate) fn planned(
        self,
        plan: &AskedTarget,
        threads: u32,
        typed: Option<&Encoding>,
    ) -> Result<Self, UnitsError> {
        let video = match &plan.video {
            Some(asked) => Some(asked.with(typed)?),
            None => none(typed.is_some(), "--video", "encoder options")?,
        };
        Ok(TargetArgs {
            video,
            crf: plan.crf,
            encoder_threads: Some(threads),
            pixel_format: plan.pixel_format.clone(),
            lossless: plan.lossless,
            audio: if plan.silent { AudioMode::None } else { AudioMode::Copy },
            ..self
        })
    }

    /// The encoder that was typed.
    pub(crate) fn encoding(&self) -> Option<&Encoding> {
        self.video.as_ref()
    }
}

/// Nothing, if nothing was typed that the plan does not have.
fn none<T>(typed: bool, option: &'static str, what: &'static str) -> Result<Option<T>, UnitsError> {
    if typed { Err(UnitsError::Repeat { option, what, other: true }) } else { Ok(None) }
}
