//! What ffmpeg and ffprobe may open: the one file that was named.
//!
//! A file says itself which demuxer reads it, whatever its name. Playlists (HLS, ffconcat, DASH, SDP) name other
//! files and addresses, which would be read into the output; patterns like `a%03d.jpg` name many. So only demuxers that
//! hold one file are let in, and only through the protocol for files.

use std::ffi::OsString;
use std::path::Path;

use crate::error::MediaError;
use crate::words::Words;

/// Demuxers that hold one file with video. `image2` reads patterns and is not among them: a single picture is read
/// by the one of its kind. SVG can refer to other files. Sound is let in so that the error can say that it is sound.
const ONE_FILE: &str = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegtsraw,mpegvideo,m4v,\
    ogg,flv,live_flv,kux,asf,asf_o,mxf,gxf,lxf,nut,dv,rm,ivr,wtv,nsv,nuv,ty,pva,swf,\
    h261,h263,h264,hevc,vvc,evc,av1,obu,ivf,mjpeg,mjpeg_2000,vc1,vc1test,cavsvideo,avs,avs2,avs3,dirac,dnxhd,\
    yuv4mpegpipe,gif,apng,apv,smjpeg,dhav,usm,cine,r3d,film_cpk,smk,bink,flic,roq,ea,4xm,vmd,idcin,wsvqa,wsaud,cdxl,\
    anm,ipmovie,tiertexseq,thp,bfi,bethsoftvid,mtv,mv,lmlm4,c93,dxa,hnm,jv,rl2,rpl,siff,smush,yop,xmv,\
    wc3movie,psxstr,filmstrip,frm,dfa,ingenient,gdv,moflex,mods,mgsts,paf,vivo,vividas,3dostr,bmv,mm,mvi,mxg,ser,fits,argo_brp,dsicin,sga,ifv,\
    bmp_pipe,cri_pipe,dds_pipe,dpx_pipe,exr_pipe,gem_pipe,gif_pipe,hdr_pipe,j2k_pipe,jpeg_pipe,jpegls_pipe,\
    jpegxl_pipe,jpegxl_anim,jpegxs_pipe,pam_pipe,pbm_pipe,pcx_pipe,pfm_pipe,pgm_pipe,pgmyuv_pipe,pgx_pipe,\
    phm_pipe,photocd_pipe,pictor_pipe,png_pipe,ppm_pipe,psd_pipe,qdraw_pipe,qoi_pipe,sgi_pipe,sunrast_pipe,\
    tiff_pipe,vbn_pipe,webp_pipe,webp_anim,xbm_pipe,xpm_pipe,xwd_pipe,ico,\
    mp3,wav,w64,flac,aac,ac3,eac3,aiff,caf";

/// Demuxers of subtitles.
const SUBTITLES: Words = Words(
    "srt ass ssa webvtt sup vobsub microdvd subviewer subviewer1 sami realtext stl jacosub mpl2 lrc scc",
);

/// Options that open `path` for reading and nothing else.
pub(crate) fn opened(path: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        ["-protocol_whitelist", "file", "-format_whitelist", ONE_FILE, "-i"].map(Into::into).into();
    args.push(url(path));
    args
}

/// A path that no option parser and no protocol handler takes for something else.
pub(crate) fn url(path: &Path) -> OsString {
    let mut text = OsString::from("file:");
    text.push(path);
    text
}

/// The error for a file that ffmpeg could not open, with ffmpeg's own `reason`.
pub(crate) fn closed(path: &Path, reason: String) -> MediaError {
    let path = path.to_owned();
    // `hls: Format not on whitelist '...'`: the list is long and says nothing to a person.
    match reason.split_once(": Format not on whitelist") {
        Some((format, _)) => {
            let format = format.rsplit("; ").next().unwrap_or_default();
            match SUBTITLES.has(format) {
                true => MediaError::Subtitles { path },
                false => MediaError::NotOneFile { path, format: format.to_owned() },
            }
        }
        // What ffmpeg 9 says of a playlist that is not called one.
        None if reason.contains("m3u8/hls") => MediaError::NotOneFile { path, format: "hls".into() },
        None => MediaError::cut_off(&path, &reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_demuxer_that_opens_other_files_is_let_in() {
        let names: Vec<&str> = ONE_FILE.split(',').collect();
        let others = "hls,applehttp,concat,dash,sdp,rtsp,rtp,sap,image2,image2pipe,lavfi,imf,webm_dash_manifest,\
            vobsub,mlv,svg_pipe,ffmetadata,libopenmpt,vapoursynth,avisynth,tty,bluray,dvdvideo,rawvideo,alias_pix";
        for other in others.split(',') {
            assert!(!names.contains(&other), "{other}");
        }
        assert!(names.iter().all(|n| !n.is_empty() && !n.contains(' ')));
    }

    #[test]
    fn a_refusal_names_the_kind_of_file() {
        let error = closed(Path::new("a.mp4"), "hls: Format not on whitelist 'mov,mp4'; it: Invalid".into());
        assert!(matches!(&error, MediaError::NotOneFile { format, .. } if format == "hls"), "{error}");
        let error = closed(Path::new("a.srt"), "srt: Format not on whitelist 'mov'; it: Invalid".into());
        assert_eq!(error.to_string(), "a.srt is a subtitle file, not a video");
        let error = closed(Path::new("a.mp4"), "moov atom not found".into());
        assert!(matches!(error, MediaError::Unreadable { .. }), "{error}");
    }
}
