//! Encoder and decoder level by level, for shared statistics: the large levels run in bands of rows.

use std::ops::Range;

use remaster_compute::{ComputeError, Tensor};

use super::{Act, Decoder, Encoder, Fused};
use crate::network::{Levels, Pass};

/// Full, 1/2, 1/4 and 1/8 size, one block each. The first level begins with `conv_in`, the last ends with `mid` and
/// the head.
impl Levels for Encoder {
    fn count(&self) -> usize {
        self.blocks.len()
    }

    fn scale(&self, level: usize) -> usize {
        8 >> level.min(3)
    }

    fn reach(&self, levels: Range<usize>) -> usize {
        // Two convolutions a resnet, the step to half the size, and in front of the first one more: at each
        // level's size, in eighths of a cell.
        let convs = |level: usize| 2 * self.blocks[level].resnets.len() + 2 + usize::from(level == 0);
        levels.map(|level| convs(level) << level.min(3)).sum::<usize>().div_ceil(8)
    }

    fn run(&self, pass: &mut Pass<'_>, x: Tensor, levels: Range<usize>) -> Result<Tensor, ComputeError> {
        let mut x = Act::from(x);
        for level in levels {
            if level == 0 {
                x = self.conv_in.forward(pass, x.view(), Fused::sums(self.config.groups))?;
            }
            x = self.blocks[level].forward(pass, x)?;
            if level + 1 == self.blocks.len() {
                x = self.mid.forward(pass, x)?;
                x = self.head.forward(pass, x)?;
            }
        }
        Ok(x.x)
    }
}

/// 1/8, 1/4, 1/2 and full size, one block each. The first level begins with `conv_in` and `mid`, the last ends with the
/// head.
impl Levels for Decoder {
    fn count(&self) -> usize {
        self.blocks.len()
    }

    fn scale(&self, level: usize) -> usize {
        1 << level.min(3)
    }

    fn reach(&self, levels: Range<usize>) -> usize {
        // Two convolutions a resnet, and the one of the upsampler, which sees two fine pixels: at each
        // level's size, in eighths of a cell. The last level ends with one more.
        let convs = |level: usize| 2 * self.blocks[level].resnets.len() + 1;
        levels.map(|level| convs(level) * (8 >> level.min(3))).sum::<usize>().div_ceil(8)
    }

    fn run(&self, pass: &mut Pass<'_>, x: Tensor, levels: Range<usize>) -> Result<Tensor, ComputeError> {
        let mut x = Act::from(x);
        for level in levels {
            if level == 0 {
                x = self.conv_in.forward(pass, x.view(), Fused::sums(self.config.groups))?;
                x = self.mid.forward(pass, x)?;
            }
            x = self.blocks[level].forward(pass, x)?;
            if level + 1 == self.blocks.len() {
                x = self.head.forward(pass, x)?;
            }
        }
        Ok(x.x)
    }
}
