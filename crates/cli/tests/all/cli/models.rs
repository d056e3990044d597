//! `remaster models inspect`.

use super::*;

#[test]
fn a_whole_checkpoint_is_usable_whatever_it_is_called() {
    let desk = desk();
    desk.tensors("vae.bin", &tiny_weights());
    let json = desk.json("models inspect vae.bin --json --tensors");
    assert_eq!(json["kind"], "vae");
    assert_eq!(json["usable"], true);
    assert_eq!(json["tensors"], 246);
    assert_eq!(json["parameters"], 4_222_723);
    assert_eq!(json["dtypes"]["F32"], 246);
    assert_eq!(json["bytes"], fs::metadata(desk.join("vae.bin")).unwrap().len());
    assert_eq!(json["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(json["fit"]["applied"].as_array().unwrap().len(), 246);
    assert_eq!(json["list"].as_array().unwrap().len(), 246);
    assert_eq!(json["list"][0]["shape"], serde_json::json!([32, 3, 3, 3, 3]));

    let text = desk.works("models inspect vae.bin");
    assert!(text.stdout.contains("246 of 246 tensors fit"), "{}", text.stdout);
}

#[test]
fn a_checkpoint_that_lacks_a_tensor_ends_with_6_and_one_document() {
    let desk = desk();
    let mut tensors = tiny_weights();
    tensors.iter_mut().find(|t| t.name == "encoder.conv_out.bias").unwrap().name =
        "encoder.conv_out.bia".into();
    desk.tensors("vae.safetensors", &tensors);
    let json = desk.run("models inspect vae.safetensors --json").ends(6, &["encoder.conv_out.bias"]).json();
    assert_eq!(json["usable"], false);
    assert_eq!(json["fit"]["missing"][0]["name"], "encoder.conv_out.bias");
    assert_eq!(json["fit"]["missing"][0]["near"][0], "encoder.conv_out.bia");
    assert_eq!(json["fit"]["unused"][0], "encoder.conv_out.bia");
}

#[test]
fn a_file_of_something_else_is_described() {
    let desk = desk();
    frames(&desk, "x.safetensors", 1, 8, 8);
    let json = desk.json("models inspect x.safetensors --json");
    assert_eq!((&json["kind"], &json["usable"]), (&Value::from("unknown"), &Value::from(false)));
    assert!(json.get("fit").is_none() && json.get("list").is_none());
}

#[test]
fn what_is_no_checkpoint_is_named() {
    let desk = desk();
    desk.put("model.safetensors", b"PK\x03\x04\0\0\0\0archive/data.pkl");
    desk.put("old.safetensors", b"\x80\x02}q\0.");
    desk.put("empty.safetensors", "");
    desk.put("page.safetensors", "<html>login</html>");
    frames(&desk, "x.safetensors", 1, 8, 8);
    let whole = bytes(&desk, "x.safetensors");
    desk.put("cut.safetensors", &whole[..whole.len() - 1]);
    for (file, word) in [
        ("model.safetensors", "PyTorch pickle"),
        ("old.safetensors", "PyTorch pickle"),
        ("empty.safetensors", "empty"),
        ("page.safetensors", "web page"),
        ("cut.safetensors", "cut off"),
        ("nowhere.safetensors", "nowhere.safetensors"),
    ] {
        let json = desk.run(&format!("models inspect {file} --json")).ends(3, &[file, word]).json();
        assert_eq!(json["exit_code"], 3);
        assert!(json["error"].as_str().unwrap().contains(word));
    }
}
