//! A template of Open Job Description: one step over chunks of units, one that assembles.

use super::Job;
use super::quote::yaml;

/// What the program may still do after it is told to stop: finish its piece.
const NOTICE_SECONDS: u32 = 120;

/// Arguments, and the parameters that carry what arguments cannot.
///
/// An argument is a format string, in which `{{` has a meaning and cannot be escaped, and in which control characters
/// are forbidden. The value of a parameter is taken as it is.
#[derive(Default)]
struct Words {
    /// A line of the template for each.
    parameters: Vec<String>,
}

impl Words {
    /// A word with the value of a new parameter. Paths are strings, too: the default of a parameter of type PATH must be
    /// relative and inside the folder of the template, and every path here is whole.
    fn parameter(&mut self, name: &str, value: &str) -> String {
        self.parameters.push(format!("  - {{name: {name}, type: STRING, default: {}}}\n", yaml(value)));
        format!("{{{{Param.{name}}}}}")
    }

    /// A word as it is, if that is possible.
    fn word(&mut self, word: &str) -> String {
        if word.contains(char::is_control) || word.contains("{{") || word.contains("}}") {
            let name = format!("Word{}", self.parameters.len());
            return self.parameter(&name, word);
        }
        word.to_owned()
    }

    fn words(&mut self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.word(word)).collect()
    }
}

pub(super) fn job(job: &Job) -> String {
    let mut words = Words::default();
    let plan = format!("--plan={}", words.parameter("Plan", &job.plan));
    let mut unit: Vec<String> = ["unit", "run"].map(str::to_owned).into();
    unit.push(plan.clone());
    unit.push("--index={{Task.Param.Unit}}".to_owned());
    let mut assemble = vec!["assemble".to_owned(), plan];
    if let Some(input) = &job.input {
        let input = format!("--input={}", words.parameter("Input", input));
        unit.push(input.clone());
        assemble.push(input);
    }
    unit.extend(words.words(&job.own_unit_words()));
    if let Some(output) = &job.output {
        assemble.push(format!("--output={}", words.parameter("Output", output)));
    }
    assemble.push("-y".to_owned());
    assemble.extend(words.words(&job.assemble_words));

    let parameters = words.parameters.concat();
    let (name, last, chunk) = (yaml(&shown(&job.name)), job.last(), job.tasks(u32::MAX).chunk);
    let (unit, assemble, needs) = (action(&unit), action(&assemble), needs(job));
    format!(
        r#"# Start: openjd run FILE --step Assemble --run-dependencies, or submit it to AWS Deadline Cloud (deadline bundle submit).
specificationVersion: jobtemplate-2023-09
extensions: [TASK_CHUNKING]
name: {name}
parameterDefinitions:
{parameters}steps:
  - name: Restore
    parameterSpace:
      taskParameterDefinitions:
        - name: Unit
          type: CHUNK[INT]
          range: "0-{last}"
          chunks: {{defaultTaskCount: {chunk}, rangeConstraint: CONTIGUOUS}}
{needs}    script:
      actions:
        onRun:
{unit}  - name: Assemble
    dependencies: [{{dependsOn: Restore}}]
    script:
      actions:
        onRun:
{assemble}"#
    )
}

/// A call of `remaster` with these arguments.
fn action(arguments: &[String]) -> String {
    let arguments: String = arguments.iter().map(|word| format!("            - {}\n", yaml(word))).collect();
    format!(
        "          command: remaster\n          args:\n{arguments}          cancelation: {{mode: \
         NOTIFY_THEN_TERMINATE, notifyPeriodInSeconds: {NOTICE_SECONDS}}}\n"
    )
}

/// What a worker must have.
fn needs(job: &Job) -> String {
    let amount = |name: &str, least: u64| format!("        - {{name: amount.worker.{name}, min: {least}}}\n");
    let amounts = [
        job.gpu.then(|| amount("gpu", 1)),
        job.mebibytes().map(|mebibytes| amount("memory", mebibytes)),
        job.cores.map(|cores| amount("vcpu", cores.max(1).into())),
    ];
    let amounts: String = amounts.into_iter().flatten().collect();
    if amounts.is_empty() { amounts } else { format!("    hostRequirements:\n      amounts:\n{amounts}") }
}

/// The name of a job: at most 128 characters, no control characters, and braces have a meaning.
fn shown(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control() && !"{}".contains(*c)).take(100).collect();
    let name = name.trim();
    if name.is_empty() { "remaster".to_owned() } else { name.to_owned() }
}
