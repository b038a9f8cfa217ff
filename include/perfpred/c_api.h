/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfpred for C99, and for every language that calls C: libperfpred.so.0.
 *
 * Results. Every function that can fail returns a perfpred_status. perfpred_last_error() has its message: one line, of
 * the calling thread's last call that failed. Nothing is thrown. What is written through pointers after a failure is
 * not promised, but for the answers of array functions.
 *
 * Handles. A handle is a number in the guise of a pointer: never follow it. It is used once only: NULL, a handle that
 * was freed, one of another kind and any other value are refused with PERFPRED_WRONG_INPUT. free functions take NULL
 * and freed handles, too. A handle that another thread frees during a call stays alive until that call is done.
 *
 * Threads. Any number of threads may use the same handles at the same time, also while another one calls
 * perfpred_model_observe() or perfpred_model_reload(): each call sees the model as it was before or after. Array
 * functions (perfpred_predict_many() to perfpred_predict_variants()) start a thread for each CPU that the calling
 * thread may use, its affinity, and end them before they return: to use fewer, call them from a thread with a narrower
 * affinity.
 *
 * dlclose() leaves the library in the process: it keeps handles and the messages of threads until the process ends.
 *
 * Texts are UTF-8. Options and answers are JSON with the names of docs/formats.md. A function that gives a text writes
 * it to `buffer`, at most `capacity` bytes with the terminating 0, and sets `*needed` (unless it is NULL) to the bytes
 * of the whole with its 0, as snprintf does: where needed > capacity the text is cut off, and perfpred_last_text() has
 * the whole. A buffer may be NULL if its capacity is 0.
 *
 * An epoch has no time where nobody stated its samples (train_images) and the network has no data that it is usually
 * trained on: of language models and captured steps. Its seconds are then NaN, and the status of the job, or of a call
 * without a status for each job, is PERFPRED_UNSTATED. perfpred_forecast() has the seconds of a step (step_sec), and
 * null for those of an epoch.
 *
 * Units. Times are seconds, of an epoch unless a name says otherwise; sizes are bytes; shares are fractions. p05, p50
 * and p95 are quantiles: a time lies between the first and the last with a probability of 90 %.
 *
 * The ABI: a library of the same soname never removes or changes a function of this header.
 */
#ifndef PERFPRED_C_API_H
#define PERFPRED_C_API_H

#include <stddef.h> /* NOLINT(modernize-deprecated-headers): C has no others */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers) */

#ifdef __cplusplus
extern "C" {
#endif

#define PERFPRED_C_API __attribute__((visibility("default")))

typedef enum perfpred_status {
  PERFPRED_OK = 0,
  PERFPRED_FAILED = 1,      /* at run time: a full disk, no memory */
  PERFPRED_WRONG_INPUT = 2, /* a file, an option, a value, a handle: the caller can mend it */
  PERFPRED_UNSTATED = 3     /* the answer rests on what nobody stated: the samples of an epoch (train_images) */
} perfpred_status;

typedef struct perfpred_catalogue perfpred_catalogue; /* known devices */
typedef struct perfpred_model perfpred_model;         /* predicts times */
typedef struct perfpred_workload perfpred_workload;   /* a network with its batch, data and device */
typedef struct perfpred_plan perfpred_plan;           /* which runs to do in a budget */
typedef struct perfpred_samples perfpred_samples;     /* times of one training step, until they make a label */

/* Of the library, as "0.1.0". */
PERFPRED_C_API const char* perfpred_version(void);

/* "" before the first failure. Valid until the thread's next call. */
PERFPRED_C_API const char* perfpred_last_error(void);

/* Of the same failure: "InputError", "ModelError" (a file that is no model of this version) or "Error" (at run time);
 * "" before the first one. */
PERFPRED_C_API const char* perfpred_last_error_type(void);

/* The whole text of the calling thread's last call that gave one. */
PERFPRED_C_API int perfpred_last_text(char* buffer, size_t capacity, size_t* needed);

/* Notes that are no errors, such as that rows of a file were skipped: one line a call, from the thread that calls the
 * library, before its function returns. The callback is the process's, and gets no pointer of yours: what it needs to
 * know of the call it finds in a variable of its thread. Without one, notes go to standard error. */
typedef void (*perfpred_note_callback)(const char* line);
PERFPRED_C_API void perfpred_set_note_callback(perfpred_note_callback callback);

/* ---- Devices ---- */

/* The devices that the library knows, this machine's CPU if its rates were measured, and those of a devices.csv of your
 * own. device_file: NULL for none. */
PERFPRED_C_API int perfpred_catalogue_create(const char* device_file, perfpred_catalogue** out);
/* The same with a links.csv, of the clusters that workloads name. */
PERFPRED_C_API int perfpred_catalogue_create_with_links(const char* device_file, const char* links,
                                                        perfpred_catalogue** out);
/* The document of `perfpred-devices --json`. name: NULL for all; else one name or alias. */
PERFPRED_C_API int perfpred_catalogue_devices(const perfpred_catalogue* catalogue, const char* name, char* buffer,
                                              size_t capacity, size_t* needed);
PERFPRED_C_API void perfpred_catalogue_free(perfpred_catalogue* catalogue);

/* ---- Networks of files, for the whole process ---- */

/* A folder of step files (perfpred.capture), by the digits in their names; or one step file. Before
 * a model is fitted or loaded that has rows of them. */
PERFPRED_C_API int perfpred_add_graphs(const char* folder);
/* Rules that count operators of your own. */
PERFPRED_C_API int perfpred_add_op_rules(const char* file);

/* ---- Models ---- */

/* path: NULL for the standard model, which knows networks and devices without a run.
 * catalogue: NULL for perfpred_catalogue_create(NULL). */
PERFPRED_C_API int perfpred_model_load(const char* path, const perfpred_catalogue* catalogue, perfpred_model** out);
/* The bytes of a model file, which perfpred_model_text() gives. */
PERFPRED_C_API int perfpred_model_load_text(const char* text, size_t size, const perfpred_catalogue* catalogue,
                                            perfpred_model** out);
PERFPRED_C_API int perfpred_model_text(const perfpred_model* model, char* buffer, size_t capacity, size_t* needed);
/* Fits the rows of a runs_agg.csv. Those whose network is not known, or cannot take its input, are left out: each is a
 * note, and among what perfpred_model_info() of this handle says was dropped. options: NULL, or {"kind": "hybrid" |
 * "linear", "seed": 0, "prior": "ops.json"}. */
PERFPRED_C_API int perfpred_model_fit(const char* runs_agg, const char* options, const perfpred_catalogue* catalogue,
                                      perfpred_model** out);
PERFPRED_C_API int perfpred_model_save(const perfpred_model* model, const char* path);
/* {"kind", "rows", "devices": [name], "networks": [name], "dropped": [{"key", "reason"}]} of the rows behind it. */
PERFPRED_C_API int perfpred_model_info(const perfpred_model* model, char* buffer, size_t capacity, size_t* needed);
/* {"devices": [name]}: the GPUs of its catalogue that compute in a precision ("bf16"; NULL: that of its rows, else
 * "fp32") and whose memory's bandwidth is known. */
PERFPRED_C_API int perfpred_model_gpus(const perfpred_model* model, const char* precision, char* buffer,
                                       size_t capacity, size_t* needed);
/* Replaces the model by that of a file (NULL: the standard model), under the same handle and with the catalogue that it
 * was loaded with. Calls that have begun see the model as it was. If it fails, the model stays as it is. Runs that the
 * handle observed and that were not saved are gone. */
PERFPRED_C_API int perfpred_model_reload(perfpred_model* model, const char* path);
/* Corrects the model by the runs of a runs.csv; the document of `perfpred-observe --json`. A row needs the fields of
 * its workload, or `key`, and avg_time_sec, or seconds and epochs. */
PERFPRED_C_API int perfpred_model_observe(perfpred_model* model, const char* runs, char* buffer, size_t capacity,
                                          size_t* needed);
/* The same of the text of a runs.csv. */
PERFPRED_C_API int perfpred_model_observe_text(perfpred_model* model, const char* text, size_t size, char* buffer,
                                               size_t capacity, size_t* needed);
/* The same of a model file, written to `out` (NULL: the same file). Processes and threads that correct one file at the
 * same time wait for each other, so that none loses what another has observed. catalogue: as of perfpred_model_load().
 */
PERFPRED_C_API int perfpred_observe_file(const char* path, const char* runs, const char* out,
                                         const perfpred_catalogue* catalogue, char* buffer, size_t capacity,
                                         size_t* needed);
/* Measures the rates of this machine's CPU, about a second, and keeps them in the user's cache folder, unless they are
 * there already. perfpred_workload_create() and perfpred_forecast() call it for a workload that needs them. */
PERFPRED_C_API int perfpred_model_measure_cpu(const perfpred_model* model);
PERFPRED_C_API void perfpred_model_free(perfpred_model* model);

/* ---- Workloads ---- */

/* fields: {"network": "resnet50", "batch_size": 64, "device": "A100-80GB-PCIe", "precision": "bf16", ...}; in place of
 * `network` also `config` (a config.json of Hugging Face's) or `step` (a step file). What is left out is that of the
 * model's rows, else the usual one; the workload remembers which of layout, compiled, software and loader were, and
 * intervals of its predictions are wide enough for their other values, as those of perfpred_forecast(). */
PERFPRED_C_API int perfpred_workload_create(const perfpred_model* model, const char* fields, perfpred_workload** out);
/* From its key, as answers and tables have it, which states all fields. */
PERFPRED_C_API int perfpred_workload_from_key(const char* key, perfpred_workload** out);
PERFPRED_C_API int perfpred_workload_key(const perfpred_workload* workload, char* buffer, size_t capacity,
                                         size_t* needed);
/* Replaces one field, which is stated from then on. Calls that have begun see the workload as it was. */
PERFPRED_C_API int perfpred_workload_set(perfpred_workload* workload, const char* field, const char* value);
/* How many parameters of its network are trained. A network whose operators are not known has no answer. */
PERFPRED_C_API int perfpred_workload_params(const perfpred_workload* workload, int64_t* params);
PERFPRED_C_API void perfpred_workload_free(perfpred_workload* workload);

/* ---- Predictions ---- */

/* seconds: p05, p50, p95; NaN with PERFPRED_UNSTATED. in_domain: NULL, or set to 1, or to 0 for an extrapolation. Where
 * runs of the workload's group answer, nothing is allocated. */
PERFPRED_C_API int perfpred_predict(const perfpred_model* model, const perfpred_workload* workload, double seconds[3],
                                    int* in_domain);
/* Seconds of an epoch that a run takes no longer than with the probability q, above 0 and below 1: of 0.05, 0.5 and
 * 0.95 those of perfpred_predict(). One run in twenty takes longer than p95, so a time limit wants 0.99 or more.
 * Between and beyond these three the logarithm of the time is taken for Student's distribution with 4 degrees of
 * freedom, scaled to p05 below its median and to p95 above. How often intervals hold the truth was checked at 90 %;
 * 0.999 rests on this tail (docs/predict.md, A time limit). Of a job of several epochs it is startup + epochs *
 * seconds; perfpred_forecast() with `quantiles` gives it. */
PERFPRED_C_API int perfpred_predict_quantile(const perfpred_model* model, const perfpred_workload* workload, double q,
                                             double* seconds);
/* `count` workloads; each array of quantiles may be NULL. One that cannot be predicted has NaN, and fails the call,
 * whose message starts with the place of the first one, as "[257]: ..."; the others have their answers. What fields
 * that were left out may be worth is asked at batch sizes that are powers of two and interpolated between them: there
 * an interval differs a little from that of perfpred_predict(). */
PERFPRED_C_API int perfpred_predict_many(const perfpred_model* model, const perfpred_workload* const* workloads,
                                         size_t count, double* p05, double* p50, double* p95);
/* The same with a status for each job: seconds[k][i] is the quantile quantiles[k] of job i
 * (perfpred_predict_quantile()), statuses[i] is PERFPRED_OK, or why its seconds are NaN. The call fails only for what
 * is wrong with all, such as a handle of the model that is not open. statuses may be NULL: then it fails as
 * perfpred_predict_many(). */
PERFPRED_C_API int perfpred_predict_jobs(const perfpred_model* model, const perfpred_workload* const* workloads,
                                         size_t count, const double* quantiles, size_t quantile_count,
                                         double* const* seconds, int* statuses);
/* One line that says why job `index` of the calling thread's last call of an array function has no answer; "" if it has
 * one. */
PERFPRED_C_API int perfpred_job_error(size_t index, char* buffer, size_t capacity, size_t* needed);
/* `count` variants of one workload: variant i has values[k][i] in the numeric field fields[k] (batch_size, depth,
 * base_filters, train_images, classes, threads, accumulate, cuda_graph, compiled), for each k below field_count. */
PERFPRED_C_API int perfpred_predict_columns(const perfpred_model* model, const perfpred_workload* workload,
                                            const char* const* fields, const double* const* values, size_t field_count,
                                            size_t count, double* p05, double* p50, double* p95);
/* The same with a status for each variant, and quantiles by number: as perfpred_predict_jobs(). */
PERFPRED_C_API int perfpred_predict_variants(const perfpred_model* model, const perfpred_workload* workload,
                                             const char* const* fields, const double* const* values, size_t field_count,
                                             size_t count, const double* quantiles, size_t quantile_count,
                                             double* const* seconds, int* statuses);
/* perfpred_predict_columns() over one field: 10,000 batch sizes, say. */
PERFPRED_C_API int perfpred_predict_field(const perfpred_model* model, const perfpred_workload* workload,
                                          const char* field, const double* values, size_t count, double* p05,
                                          double* p50, double* p95);
/* Time, memory, price, bound and advice: the document of `perfpred-predict --json`. request: the fields of
 * perfpred_workload_create(), and the terms of the job: epochs, max_steps, startup_sec, evaluation, checkpoint_sec,
 * checkpoint_every, price_per_hour, prices
 * (prices.csv, or an object of prices per hour by device, for requests without price_per_hour; that of the device must
 * be there), budget_sec, quantiles (a list such as [0.99, 0.999]), train_tokens, lengths (of the texts of an epoch: a
 * list, a file with one a line, or "mean=600,p95=1800,max=4096"), group_by_length, reserved_by_others (bytes, or
 * "2GiB"), fit_advice (false leaves out the advice and the largest batch, which take most of the time). */
PERFPRED_C_API int perfpred_forecast(const perfpred_model* model, const char* request, char* buffer, size_t capacity,
                                     size_t* needed);

/* What a training step of the same request holds: FLOPs, bytes and memory of the step, and parameters and FLOPs of each
 * layer: the document of `perfpred-inspect --json --layers`; on several devices the memory of their ranks. The request
 * may lack batch_size, which is 32 then, or that of the step file, and a device. Terms of the job change nothing. */
PERFPRED_C_API int perfpred_inspect(const perfpred_model* model, const char* request, char* buffer, size_t capacity,
                                    size_t* needed);
/* The networks that are known by name: {"networks": [{"name", "hub", "params", "input", "classes", "aliases", "inputs",
 * "sample", "source", "version", "licence"}]}. word: NULL for all; else those whose name has it, here or elsewhere,
 * letters and digits compared alone, and the one that it means. */
PERFPRED_C_API int perfpred_networks(const char* word, char* buffer, size_t capacity, size_t* needed);

/* How to spread a transformer's training over several devices, ranked: the document of `perfpred-layouts --json`.
 * request: as for perfpred_forecast(), with batch_size that of an update over all devices; gpus (how many devices),
 * and, where they are wanted, top (20), by ("time", "price", "memory"). Without parallel, gpus_per_node, accumulate and
 * checkpoint, which are what is searched for. */
PERFPRED_C_API int perfpred_layouts(const perfpred_model* model, const char* request, char* buffer, size_t capacity,
                                    size_t* needed);

/* The predicted step over time: the document of `perfpred-predict --trace`, which Perfetto and chrome://tracing show.
 * request: as for perfpred_forecast(); terms of the job change nothing. */
PERFPRED_C_API int perfpred_timeline(const perfpred_model* model, const char* request, char* buffer, size_t capacity,
                                     size_t* needed);

/* Why measured steps do not take the time that the model expects: the document of `perfpred-explain --json`, of several
 * a list, in which a run without an answer has `key` and `error`. request: one of files (runs.csv or logs that other
 * software wrote, told apart by their content), runs (tables), log (logs), each a text or a list; row (an object of
 * columns of runs.csv); measured_ms (of a step). With a log or measured_ms also the fields of perfpred_forecast(); with
 * a log what perfpred_aggregate() takes of one. */
PERFPRED_C_API int perfpred_explain(const perfpred_model* model, const char* request, char* buffer, size_t capacity,
                                    size_t* needed);
/* What perfpred-explain prints of its document, or of a list of them. */
PERFPRED_C_API int perfpred_explanation_text(const char* explanations, char* buffer, size_t capacity, size_t* needed);

/* What perfpred-predict prints of an answer, which is the document of perfpred_forecast(): lines, with fields as a
 * request names them (`batch_size=64`). A table of several, a line each: {"fields": ["device", "batch_size"], "values":
 * [["T4", "64"], ...], "answers": [...]}, whose lines begin with the texts of `values`; an answer may be {"error": why
 * there is none}. */
PERFPRED_C_API int perfpred_answer_text(const char* answers, char* buffer, size_t capacity, size_t* needed);
/* Every field that a request may have: {"fields": [{"name", "of": "workload" | "network" | "job", "type", "words",
 * "other_words", "default", "meaning", "sweeps"}]}. type: text, word (one of `words`), integer (or one of `words`, if
 * there are any), number, flag, shape (3x224x224, or a list), seconds (3600, or "1:00:00"), bytes (a number, or
 * "2GiB"), path, numbers (one or a list), lengths, prices. other_words: {"adamw_torch": "adamw"}, of words that stand
 * for others, whatever their case; null where there are none. perfpred_predict_columns() takes the integers without
 * words and the flags of a workload. default: where neither the request nor rows of the model say; null where it
 * depends on other fields, or nothing is given then. sweeps: whether several values are several jobs. */
PERFPRED_C_API int perfpred_fields(char* buffer, size_t capacity, size_t* needed);

/* ---- The time of a training step ---- */

/* Samples, warm-up included, that make a label by the rules of perfpred-collect (docs/guides/measuring.md). limit_sec:
 * sum of the samples after which the label is what it is, above 0. */
PERFPRED_C_API int perfpred_samples_create(double limit_sec, perfpred_samples** out);
/* Adds `count` samples in their order, seconds each. disturbed: 1 where something else slowed the device down; NULL:
 * nowhere. finished: NULL, or set to 1 if no more samples are needed, else to 0. */
PERFPRED_C_API int perfpred_samples_add(perfpred_samples* samples, const double* sec, const int* disturbed,
                                        size_t count, int* finished);
/* {"median", "low", "high", "mean", "mean_rel_sem", "cv", "p05", "p95", "samples", "warmup", "discarded",
 * "disturbed_share", "stopped_by", "disturbed", "drift", "change"} as StepLabel of step_samples.h has them; null for
 * what is infinite. ended: 1 if no more samples will come, of which there have to be three: they make the label, as at
 * the limit. */
PERFPRED_C_API int perfpred_samples_label(perfpred_samples* samples, int ended, char* buffer, size_t capacity,
                                          size_t* needed);
PERFPRED_C_API void perfpred_samples_free(perfpred_samples* samples);

/* ---- Measured runs and plans ---- */

/* options: {"runs": [file], "logs": folder, "from": [file], "label": "robust" | "mean", "out": runs_agg.csv,
 * "rejected": rejected.csv}, of which one of the first three is needed. `from` are logs that other software wrote
 * (MLPerf, trainer_state.json, ...); with it `runs_out` (runs.csv) may be given, and what these logs do not say: fields
 * of a workload, `config`, params, env, counted ("steps" or "epochs", of a TensorBoard file) and step_tokens (of
 * torchtune's log). The document of `perfpred-aggregate --json`. */
PERFPRED_C_API int perfpred_aggregate(const char* options, char* buffer, size_t capacity, size_t* needed);

/* options: {"runs_agg": file, "budget_sec": 3600, "epochs": 50} and, of the options of perfpred-plan, min_acc, value,
 * objective, confidence, startup_sec, free_from_sec, gpus, devices (a list of names), ignore_memory, price_per_hour or
 * prices (prices.csv, or an object of prices per hour by device), time_limit_sec, pareto, out, device_file. Without a
 * file: "rows" in place of runs_agg, the text of the table or its columns, {"network": ["resnet50", ...], "count": [3,
 * ...]}. budget_sec and free_from_sec may be objects of seconds by device. epochs may be missing where the table has
 * such a column. model: NULL for the measured times of the rows; else the times are its predictions, its catalogue
 * stands for device_file, and the table may be one of workloads without measured columns, with acc_mean where accuracy
 * is the value. */
PERFPRED_C_API int perfpred_plan_create(const char* options, const perfpred_model* model, perfpred_plan** out);
/* The document of `perfpred-plan --json`. */
PERFPRED_C_API int perfpred_plan_text(const perfpred_plan* plan, char* buffer, size_t capacity, size_t* needed);
PERFPRED_C_API int perfpred_plan_size(const perfpred_plan* plan, size_t* runs);
/* Of each run in the order of the document's items; each array may be NULL. */
PERFPRED_C_API int perfpred_plan_columns(const perfpred_plan* plan, int64_t* cost_sec, double* value,
                                         int64_t* start_sec);
/* Of each run the index of its device among those of the options, from 0: two devices of one name are told apart. */
PERFPRED_C_API int perfpred_plan_devices(const perfpred_plan* plan, size_t* device);
/* The name of a device, with its number where the options name it twice: "T4 #2"; "gpu1" of gpus; empty for the
 * only device where none is named. */
PERFPRED_C_API int perfpred_plan_device_name(const perfpred_plan* plan, size_t device, char* buffer, size_t capacity,
                                             size_t* needed);
/* The value of the plan, what no plan exceeds, and 1 if the plan is proved to be optimal, else 0; each may be NULL. */
PERFPRED_C_API int perfpred_plan_bound(const perfpred_plan* plan, double* value, double* upper_bound, int* optimal);
/* The workload of run `index`, a new handle. */
PERFPRED_C_API int perfpred_plan_workload(const perfpred_plan* plan, size_t index, perfpred_workload** out);
PERFPRED_C_API void perfpred_plan_free(perfpred_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
